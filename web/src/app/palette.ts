/** Colours of services. */
import { createContext, createElement, useContext, useMemo } from "react";
import type { CSSProperties, ReactNode } from "react";
import { assign, cssColour, hexColour, ownSlot } from "../model/colour";
import type { Theme } from "../model/colour";

let all: ReadonlyMap<string, number> = new Map();
let known = "";

/** Sets the services that the server knows. Lists use their colours. */
export function introduce(names: readonly string[]): void {
  const key = [...names].sort().join("\n");
  if (key === known) return;
  known = key;
  all = assign(names);
}

type Palette = (service: string) => number;
const global: Palette = (service) => all.get(service) ?? ownSlot(service);
const Context = createContext<Palette>(global);

/** Gives the services that are shown together inside this element different colours. */
export function Colours({ names, children }: { names: readonly string[]; children: ReactNode }) {
  const key = names.join("\n");
  const palette = useMemo((): Palette => {
    const slots = assign(names, global);
    return (service) => slots.get(service) ?? global(service);
  }, [key, known]);
  return createElement(Context, { value: palette }, children);
}

/** Sets `--service` on an element: the colour of its service. */
export function useServiceStyle(): (service: string) => CSSProperties {
  const palette = useContext(Context);
  return (service) => ({ "--service": cssColour(palette(service)) }) as CSSProperties;
}

/** The service's colour as `#rrggbb`, for canvases. */
export function useServiceHex(): (service: string, theme: Theme) => string {
  const palette = useContext(Context);
  return useMemo(() => (service, theme) => hexColour(palette(service), theme), [palette]);
}
