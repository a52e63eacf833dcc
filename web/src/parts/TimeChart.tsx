import { useId } from "react";
import { useZone } from "../app/zone";
import { Link } from "../app/router";
import { linePath, peak } from "../model/series";
import type { Exemplar, Line, Steps } from "../model/series";
import { ticks } from "../model/duration";
import { formatMark, formatSecond } from "../model/time";

const WIDTH = 600;
const HEIGHT = 120;
/** Exemplars that are drawn: the largest. */
const MOST_EXEMPLARS = 24;

/** One figure over time, with traces that are examples of it. A click on one opens it. */
export function TimeChart(props: {
  title: string;
  tone: "rate" | "error" | "latency";
  line: Line;
  on: Steps;
  least?: number;
  format: (value: number) => string;
  /** Whether an exemplar's value is on the scale of this chart. */
  examples?: boolean;
}) {
  const { line, on } = props;
  const zone = useZone();
  const id = useId();
  const shown = props.examples
    ? [...line.exemplars].sort((a, b) => b.value - a.value).slice(0, MOST_EXEMPLARS)
    : [];
  const top = peak([...line.values, ...shown.map((one) => one.value)], props.least ?? 0) || 1;
  const marks = ticks(0, top, 3).filter((mark) => mark > 0);
  const width = (WIDTH * Math.max(1, line.values.length - 1)) / Math.max(1, on.count - 1);
  const spread = (on.to - on.from) * 1000;
  const times = [0, 0.25, 0.5, 0.75].map((share) => on.from * 1000 + share * spread);
  const place = (one: Exemplar) => ({
    left: `${Math.min(100, Math.max(0, ((one.at - on.from) / (on.to - on.from)) * 100))}%`,
    bottom: `${(one.value / top) * 100}%`,
  });
  return (
    <figure className="time-chart" aria-labelledby={id}>
      <figcaption id={id}>{props.title}</figcaption>
      <div className={`plot ${props.tone}`}>
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {marks.map((mark) => (
            <path
              key={mark}
              className="floor"
              d={`M0 ${(HEIGHT - (mark / top) * HEIGHT).toFixed(1)}H${WIDTH}`}
            />
          ))}
          <path className="floor" d={`M0 ${HEIGHT}H${WIDTH}`} />
          <path className="line" d={linePath(line.values, width, HEIGHT, top)} />
        </svg>
        {marks.map((mark) => (
          <span key={mark} className="mark" style={{ bottom: `${(mark / top) * 100}%` }}>
            {props.format(mark)}
          </span>
        ))}
        {shown.map((one) => (
          <Link
            key={`${one.traceId} ${one.spanId}`}
            className="exemplar"
            style={place(one)}
            to={`/trace/${one.traceId}${one.spanId === "" ? "" : `?span=${one.spanId}`}`}
            aria-label={`Trace of ${props.format(one.value)}`}
            title={`${props.format(one.value)} at ${formatSecond(one.at * 1000, Date.now(), zone)}: open its trace`}
            data-testid="exemplar"
          />
        ))}
      </div>
      <div className="times" aria-hidden="true">
        {times.map((time) => (
          <span key={time}>{formatMark(time, spread / 4, zone)}</span>
        ))}
      </div>
    </figure>
  );
}
