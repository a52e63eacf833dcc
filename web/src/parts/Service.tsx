import type { CSSProperties } from "react";
import { serviceColour } from "../app/palette";

/** The style that gives an element `--service`, its service's colour. */
export const serviceStyle = (name: string): CSSProperties =>
  ({ "--service": serviceColour(name) }) as CSSProperties;

export function Service({ name }: { name: string }) {
  return (
    <span className="service cut" style={serviceStyle(name)} title={name}>
      <span className="swatch" /> {name}
    </span>
  );
}
