import { milliseconds, RANGES, toInput, unixNano } from "../model/time";

/** Chooses a range by name, or by two points in time. */
export function TimeRange(props: {
  start: string;
  end: string;
  onChange: (start: string, end: string) => void;
}) {
  const named = RANGES.some(([start]) => start === props.start) && props.end === "now";
  const from = absolute(props.start);
  const to = absolute(props.end);
  return (
    <>
      <select
        aria-label="Time range"
        data-testid="range"
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
            value={toInput(from)}
            onChange={(event) => {
              const chosen = new Date(event.target.value).getTime();
              if (Number.isFinite(chosen)) props.onChange(unixNano(chosen), unixNano(to));
            }}
          />
          –
          <input
            type="datetime-local"
            step="1"
            aria-label="To"
            value={toInput(to)}
            onChange={(event) => {
              const chosen = new Date(event.target.value).getTime();
              if (Number.isFinite(chosen)) props.onChange(unixNano(from), unixNano(chosen));
            }}
          />
        </span>
      )}
    </>
  );
}

const UNITS: Record<string, number> = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3 };

/** Milliseconds since 1970 of what the API takes as a time. */
export function absolute(text: string, now = Date.now()): number {
  if (text === "now") return now;
  const relative = /^-(\d+)([smhd])$/.exec(text);
  if (relative) return now - Number(relative[1]) * UNITS[relative[2]!]!;
  return /^\d+$/.test(text) ? milliseconds(text) : now;
}
