import { fromInput, milliseconds, RANGES, toInput, unixNano, zoneName } from "../model/time";
import { useZone } from "../app/zone";

/** Chooses a range by name, or by start and end. */
export function TimeRange(props: {
  start: string;
  end: string;
  /** Whether the range differs from the page's default. */
  set?: boolean;
  onChange: (start: string, end: string) => void;
}) {
  const zone = useZone();
  const named = RANGES.some(([start]) => start === props.start) && props.end === "now";
  const from = absolute(props.start);
  const to = absolute(props.end);
  const take = (text: string, use: (chosen: number) => void) => {
    const chosen = fromInput(text, zone);
    if (chosen !== null) use(chosen);
  };
  return (
    <>
      <select
        aria-label="Time range"
        data-testid="range"
        data-set={props.set ?? false}
        value={named ? props.start : "custom"}
        onChange={(event) => {
          if (event.target.value !== "custom") props.onChange(event.target.value, "now");
          else props.onChange(unixNano(from), unixNano(to));
        }}
      >
        {RANGES.map(([start, label]) => (
          <option key={start} value={start}>
            {label}
          </option>
        ))}
        <option value="custom">From … to …</option>
      </select>
      {!named && (
        <span className="between">
          <input
            type="datetime-local"
            step="1"
            aria-label="From"
            value={toInput(from, zone)}
            onChange={(event) =>
              take(event.target.value, (chosen) => props.onChange(unixNano(chosen), unixNano(to)))
            }
          />
          –
          <input
            type="datetime-local"
            step="1"
            aria-label="To"
            value={toInput(to, zone)}
            onChange={(event) =>
              take(event.target.value, (chosen) => props.onChange(unixNano(from), unixNano(chosen)))
            }
          />
          <span className="label">{zoneName(zone, to)}</span>
        </span>
      )}
    </>
  );
}

const UNITS: Record<string, number> = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3 };

/** Milliseconds since 1970 of a time in the API's spelling. */
export function absolute(text: string, now = Date.now()): number {
  if (text === "now") return now;
  const relative = /^-(\d+)([smhd])$/.exec(text);
  if (relative) return now - Number(relative[1]) * UNITS[relative[2]!]!;
  if (/^\d+$/.test(text)) return milliseconds(text);
  const named = Date.parse(text);
  return Number.isFinite(named) ? named : now;
}
