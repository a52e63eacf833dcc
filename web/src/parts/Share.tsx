import { formatShare } from "../model/number";

/** A share as a figure and a bar. */
export function Share(props: { of: number; text?: string; tone?: "error" | "accent" }) {
  return (
    <span className="share-bar" data-tone={props.tone ?? "accent"}>
      <span aria-hidden="true">
        <span style={{ width: `${Math.max(0, Math.min(1, props.of)) * 100}%` }} />
      </span>
      {props.text ?? formatShare(props.of)}
    </span>
  );
}
