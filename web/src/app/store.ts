/** A choice that this browser remembers, if its storage is available. */
import { useSyncExternalStore } from "react";

export function recalled(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function remembered(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // In private mode, the choice lasts as long as the page.
  }
}

/** A value that components subscribe to. */
export class Followed<T> {
  private readonly listeners = new Set<() => void>();
  private value: T;
  constructor(value: T) {
    this.value = value;
  }
  readonly get = (): T => this.value;
  set(value: T): void {
    if (value === this.value) return;
    this.value = value;
    for (const listener of this.listeners) listener();
  }
  private readonly follow = (listener: () => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };
  use(): T {
    return useSyncExternalStore(this.follow, this.get);
  }
}
