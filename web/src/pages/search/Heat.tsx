import { useRef, useState } from "react";
import type { PointerEvent } from "react";
import { useHeat } from "../../api/traceql";
import { setParams, usePlace } from "../../app/router";
import { useZone } from "../../app/zone";
import { apiDuration, formatDuration } from "../../model/duration";
import { selected, shade } from "../../model/heat";
import type { Heat as HeatModel, Selected } from "../../model/heat";
import { plural } from "../../model/number";
import { formatMark, formatRange, unixNano } from "../../model/time";
import { fromBuilder } from "../../model/traceql";
import { Failure } from "../../parts/Blank";
import { usePageRange } from "../../parts/range";
import { asked } from "./question";

/** The heat map of the builder's search. A box sets its times and durations. */
export function BuilderHeat() {
  const { params } = usePlace();
  const { query, lost } = fromBuilder(asked(params));
  return (
    <Heat
      query={query}
      use="search in it"
      note={lost.length > 0 ? `It does not say that ${lost.join(" and ")}.` : null}
      onSelect={(box) =>
        setParams(
          {
            start: unixNano(box.from * 1000),
            end: unixNano(box.to * 1000),
            min: apiDuration(box.least, "down"),
            max: apiDuration(box.most, "up"),
            live: null,
          },
          "push",
        )
      }
    />
  );
}

type Cell = readonly [step: number, row: number];

/** Durations of the spans that fit, over time. A box that is drawn over it selects. */
export function Heat(props: {
  query: string | null;
  note?: string | null;
  /** What a box is good for, to tell the user. */
  use: string;
  onSelect: (box: Selected) => void;
}) {
  const { on } = usePageRange();
  const answer = useHeat(props.query, on);
  if (answer.isError) {
    return (
      <div className="room">
        <Failure error={answer.error} />
      </div>
    );
  }
  if (!answer.data) return <div className="heat" data-testid="heat" data-total="" />;
  return (
    <Drawn map={answer.data} note={props.note ?? null} use={props.use} onSelect={props.onSelect} />
  );
}

function Drawn(props: {
  map: HeatModel;
  note: string | null;
  use: string;
  onSelect: (box: Selected) => void;
}) {
  const { map } = props;
  const { on, bounds } = map;
  const zone = useZone();
  const box = useRef<HTMLDivElement>(null);
  const [from, setFrom] = useState<Cell | null>(null);
  const [to, setTo] = useState<Cell | null>(null);
  const rows = bounds.length;
  const cell = (event: PointerEvent): Cell => {
    const area = box.current!.getBoundingClientRect();
    const within = (share: number, count: number) =>
      Math.min(count - 1, Math.max(0, Math.floor(share * count)));
    return [
      within((event.clientX - area.left) / area.width, on.count),
      rows - 1 - within((event.clientY - area.top) / area.height, rows),
    ];
  };
  const chosen =
    to === null ? null : selected(map, [(from ?? to)[0], to[0]], [(from ?? to)[1], to[1]]);
  const spread = (on.to - on.from) * 1000;
  return (
    <figure className="heat" data-testid="heat" data-total={map.total}>
      <div className="heat-rows" aria-hidden="true">
        {[...bounds.keys()].reverse().map((row) => (
          <span key={row}>
            {(rows - 1 - row) % Math.ceil(rows / 6) === 0 ? formatDuration(bounds[row]! * 1e9) : ""}
          </span>
        ))}
      </div>
      <div
        ref={box}
        className="heat-cells"
        onPointerDown={(event) => {
          if (rows === 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          setFrom(cell(event));
          setTo(cell(event));
        }}
        onPointerMove={(event) => rows > 0 && setTo(cell(event))}
        onPointerLeave={() => from === null && setTo(null)}
        onPointerUp={() => {
          if (from !== null && chosen !== null && chosen.count > 0) props.onSelect(chosen);
          setFrom(null);
          setTo(null);
        }}
        onPointerCancel={() => setFrom(null)}
      >
        <svg
          viewBox={`0 0 ${on.count} ${Math.max(1, rows)}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${plural(map.total, "span")} by duration over time`}
        >
          {map.cells.flatMap((counts, row) =>
            counts.map((count, step) =>
              count === 0 ? null : (
                <rect
                  key={`${row} ${step}`}
                  x={step}
                  y={rows - 1 - row}
                  width="1"
                  height="1"
                  fillOpacity={shade(count, map.most)}
                />
              ),
            ),
          )}
          {from !== null && to !== null && (
            <rect
              className="drawn"
              x={Math.min(from[0], to[0])}
              y={rows - 1 - Math.max(from[1], to[1])}
              width={Math.abs(from[0] - to[0]) + 1}
              height={Math.abs(from[1] - to[1]) + 1}
            />
          )}
        </svg>
      </div>
      <div className="heat-times" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75].map((share) => (
          <span key={share}>{formatMark(on.from * 1000 + share * spread, spread / 4, zone)}</span>
        ))}
      </div>
      <figcaption className="label">
        {chosen
          ? `${plural(chosen.count, "span")} of ${formatDuration(chosen.least)} to ${formatDuration(chosen.most)}, ${formatRange(chosen.from * 1000, chosen.to * 1000, Date.now(), zone)}`
          : `${plural(map.total, "span")} that fit, by duration. Draw a box to ${props.use}.`}{" "}
        {props.note}
      </figcaption>
    </figure>
  );
}
