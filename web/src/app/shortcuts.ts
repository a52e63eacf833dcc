import { useEffect } from "react";

/** Handlers by key, as `KeyboardEvent.key` names it. */
export type Shortcuts = Record<string, (event: KeyboardEvent) => void>;

function typing(target: Element): boolean {
  return (
    (target instanceof HTMLElement && target.isContentEditable) ||
    /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
  );
}

/** Elements that react to Enter and Space themselves. */
const PRESSED = "a[href], button, summary, [role=button], [role=option]";

/**
 * Keys that work everywhere on the page, except while the user types text or has focused a
 * button.
 */
export function useShortcuts(shortcuts: Shortcuts): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target instanceof Element ? event.target : document.body;
      if (typing(target)) {
        if (event.key === "Escape") (target as HTMLElement).blur();
        return;
      }
      if ((event.key === "Enter" || event.key === " ") && target.closest(PRESSED)) return;
      if (document.querySelector("dialog[open]")) return;
      const action = shortcuts[event.key];
      if (!action) return;
      event.preventDefault();
      action(event);
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  });
}
