import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import type { TraceSummary } from "../../api/types";
import { navigate, setParams } from "../../app/router";
import { token, useTheme } from "../../app/theme";
import { useZone } from "../../app/zone";
import { apiDuration, formatDuration, nano } from "../../model/duration";
import { plural } from "../../model/number";
import { formatMark, formatMoment, milliseconds, unixNano } from "../../model/time";
import { rootOf } from "./root";

interface Point {
  trace: TraceSummary;
  /** Seconds since 1970. */
  x: number;
  /** Nanoseconds. */
  y: number;
  radius: number;
}

/** Distance within which the pointer hits a point, in CSS pixels. */
const REACH = 10;
/** Steps between labels, fine enough that a phone shows at least two. */
const STEPS_SECONDS = [
  ...[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5],
  ...[1, 2, 5, 10, 15, 20, 30],
  ...[1, 2, 5, 10, 15, 20, 30].map((minutes) => minutes * 60),
  ...[1, 2, 3, 6, 12].map((hours) => hours * 3600),
  ...[1, 2, 3, 5, 10, 15, 30, 60, 90, 180, 365].map((days) => days * 86_400),
];

/**
 * Duration over time, one point for each trace. A click opens the trace; dragging narrows the
 * search.
 */
export function Scatter(props: {
  traces: readonly TraceSummary[];
  from: number;
  to: number;
  zoomed: boolean;
}) {
  const theme = useTheme();
  const zone = useZone();
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [near, setNear] = useState<{ point: Point; left: number; top: number } | null>(null);
  const points = useMemo(
    () =>
      props.traces
        .map((trace): Point => ({
          trace,
          x: milliseconds(trace.start_unix_nano) / 1000,
          y: Math.max(1000, nano(trace.duration_nano)),
          radius: 2.5 + Math.min(6, Math.sqrt(trace.spans) * 0.45),
        }))
        // uPlot needs ascending x. Failed traces are drawn last, above the others.
        .sort((a, b) => a.x - b.x),
    [props.traces],
  );
  const latest = useRef({ points, from: props.from, to: props.to });
  latest.current = { points, from: props.from, to: props.to };

  useEffect(() => {
    const parent = box.current!;
    const colours = {
      ok: token("--accent"),
      error: token("--error"),
      ink: token("--ink-3"),
      line: token("--line"),
    };
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const draw = (u: uPlot) => {
      const context = u.ctx;
      const ratio = devicePixelRatio;
      context.save();
      context.beginPath();
      context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      context.clip();
      for (const failed of [false, true]) {
        context.fillStyle = context.strokeStyle = failed ? colours.error : colours.ok;
        for (const point of latest.current.points) {
          if ((point.trace.status === "error") !== failed) continue;
          context.beginPath();
          context.arc(
            u.valToPos(point.x, "x", true),
            u.valToPos(point.y, "y", true),
            point.radius * ratio,
            0,
            2 * Math.PI,
          );
          context.globalAlpha = failed ? 0.75 : 0.4;
          context.fill();
          context.globalAlpha = 0.9;
          context.lineWidth = ratio;
          context.stroke();
        }
      }
      context.restore();
    };
    const nearest = (u: uPlot): { point: Point; left: number; top: number } | null => {
      const { left, top } = u.cursor;
      if (left === undefined || top === undefined || left < 0) return null;
      let best: { point: Point; left: number; top: number } | null = null;
      let distance = Infinity;
      for (const point of latest.current.points) {
        const x = u.valToPos(point.x, "x");
        const y = u.valToPos(point.y, "y");
        const away = Math.hypot(x - left, y - top);
        if (away < Math.max(REACH, point.radius + 2) && away < distance) {
          distance = away;
          best = { point, left: x, top: y };
        }
      }
      return best;
    };
    const u = new uPlot(
      {
        width: parent.clientWidth,
        height: parent.clientHeight,
        legend: { show: false },
        padding: [10, 16, 0, 0],
        // Labels are at whole hours of the displayed time zone.
        ...(zone === "utc" && {
          tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        }),
        cursor: {
          x: false,
          y: false,
          points: { show: false },
          drag: { x: true, y: true, setScale: false, dist: 5, uni: 24 },
        },
        scales: {
          x: { time: true, range: () => [latest.current.from, latest.current.to] },
          y: { distr: 3, range: () => decades(latest.current.points) },
        },
        axes: [
          {
            font,
            stroke: colours.ink,
            grid: { stroke: colours.line, width: 1 },
            ticks: { show: false },
            size: 24,
            gap: 4,
            // The width of the longest label and some space. Below 10 seconds, times have
            // milliseconds.
            space: (_, __, least, most) => (most - least < 10 ? 90 : 66),
            incrs: STEPS_SECONDS,
            values: (_, marks, __, ___, step) =>
              marks.map((mark) => formatMark(mark * 1000, step * 1000, zone)),
          },
          {
            font,
            stroke: colours.ink,
            grid: { stroke: colours.line, width: 1 },
            ticks: { show: false },
            size: 58,
            gap: 6,
            splits: (_, __, least, most) => {
              const marks = [];
              for (let mark = least; mark <= most * 1.001; mark *= 10) marks.push(mark);
              return marks;
            },
            values: (_, marks) => marks.map(formatDuration),
            filter: (_, marks) => marks,
          },
        ],
        series: [{}, { paths: () => null, points: { show: false } }],
        hooks: {
          draw: [draw],
          setCursor: [
            (self) => {
              const found = nearest(self);
              self.over.style.cursor = found ? "pointer" : "crosshair";
              setNear(found);
            },
          ],
          setSelect: [
            (self) => {
              const { left, top, width, height } = self.select;
              if (width < 5 && height < 5) return;
              const whole = {
                x: width >= self.over.clientWidth,
                y: height >= self.over.clientHeight,
              };
              setParams(
                {
                  ...(whole.x
                    ? {}
                    : {
                        start: unixNano(self.posToVal(left, "x") * 1000),
                        end: unixNano(self.posToVal(left + width, "x") * 1000),
                      }),
                  ...(whole.y
                    ? {}
                    : {
                        min: apiDuration(self.posToVal(top + height, "y"), "down"),
                        max: apiDuration(self.posToVal(top, "y"), "up"),
                      }),
                  live: null,
                },
                "push",
              );
              self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
        },
      },
      data(latest.current.points),
      parent,
    );
    chart.current = u;
    let down: [number, number] = [0, 0];
    u.over.addEventListener("mousedown", (event) => (down = [event.clientX, event.clientY]));
    u.over.addEventListener("click", (event) => {
      if (Math.hypot(event.clientX - down[0], event.clientY - down[1]) > 4) return;
      const found = nearest(u);
      if (found) navigate(`/trace/${found.point.trace.trace_id}`);
    });
    u.over.addEventListener("mouseleave", () => setNear(null));
    const observer = new ResizeObserver(() =>
      u.setSize({ width: parent.clientWidth, height: parent.clientHeight }),
    );
    observer.observe(parent);
    return () => {
      observer.disconnect();
      u.destroy();
      chart.current = null;
    };
  }, [theme, zone]);

  useEffect(() => {
    chart.current?.setData(data(points));
  }, [points, props.from, props.to]);

  return (
    <div className="scatter" data-testid="scatter" data-points={points.length}>
      <div
        ref={box}
        className="fill"
        role="img"
        aria-label={`Durations of ${plural(points.length, "trace")} over time; the list below has the same`}
      />
      {props.zoomed ? (
        <button
          type="button"
          className="button tiny hint active"
          onClick={() => setParams({ start: null, end: null, min: null, max: null }, "push")}
        >
          Reset zoom
        </button>
      ) : (
        <span className="label hint">drag to zoom · click opens</span>
      )}
      {near && <Tip {...near} />}
    </div>
  );
}

function Tip({ point, left, top }: { point: Point; left: number; top: number }) {
  const zone = useZone();
  const { trace } = point;
  const root = rootOf(trace);
  // The axis takes 58 px and the padding 10 px between the box and the plot.
  const flipped = left > 700;
  return (
    <div
      className="tip"
      style={{
        top: Math.min(96, top + 18),
        ...(flipped ? { right: `calc(100% - ${left + 52}px)` } : { left: left + 72 }),
      }}
    >
      <b className="cut">{root.operation}</b>
      <span className="quiet">
        {root.service} · {formatMoment(milliseconds(trace.start_unix_nano), zone)}
      </span>
      <span>
        {formatDuration(nano(trace.duration_nano))} · {plural(trace.spans, "span")}
        {trace.errors > 0 && <span className="is-error"> · {plural(trace.errors, "error")}</span>}
      </span>
    </div>
  );
}

function data(points: readonly Point[]): uPlot.AlignedData {
  return [points.map((point) => point.x), points.map((point) => point.y)];
}

/** The range in whole powers of ten that contains all durations. */
function decades(points: readonly Point[]): [number, number] {
  if (points.length === 0) return [1e6, 1e9];
  let least = Infinity;
  let most = 0;
  for (const { y } of points) {
    least = Math.min(least, y);
    most = Math.max(most, y);
  }
  const low = 10 ** Math.floor(Math.log10(least));
  const high = 10 ** Math.ceil(Math.log10(most));
  return [low, high > low ? high : low * 10];
}
