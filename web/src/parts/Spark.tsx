import { linePath, peak } from "../model/series";

const WIDTH = 120;
const HEIGHT = 26;

/** A small chart of one figure over time. Its text is for those who do not see it. */
export function Spark(props: {
  values: readonly (number | null)[];
  tone: "rate" | "error" | "latency";
  /** The value at the top, if it is not the largest. */
  top?: number;
  text: string;
}) {
  const top = props.top ?? peak(props.values);
  const line = linePath(props.values, WIDTH, HEIGHT - 2, top || 1);
  return (
    <svg
      className={`spark ${props.tone}`}
      viewBox={`0 -1 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={props.text}
    >
      <title>{props.text}</title>
      <path className="floor" d={`M0 ${HEIGHT - 2}H${WIDTH}`} />
      <path className="line" d={line} />
    </svg>
  );
}
