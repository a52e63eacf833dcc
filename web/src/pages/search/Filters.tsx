import { useEffect, useRef, useState } from "react";
import { useOperations, useServices } from "../../api/queries";
import { useServiceStyle } from "../../app/palette";
import { setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { canonicalDuration } from "../../model/duration";
import { formatCount } from "../../model/number";
import { DEFAULT_START } from "../../model/time";
import { fromBuilder } from "../../model/traceql";
import { Combobox } from "../../parts/Combobox";
import { TimeRange } from "../../parts/TimeRange";
import { AttributeField } from "./AttributeField";
import { DEFAULT_LIMIT, LIMITS, narrowed, SORTS, WIDE } from "./question";
import type { Asked } from "./question";

const STATUSES = [
  ["", "Any"],
  ["error", "Errors"],
  ["ok", "OK"],
] as const;

export function Filters({ asked, onAgain }: { asked: Asked; onAgain: () => void }) {
  const serviceStyle = useServiceStyle();
  const services = useServices(asked.live);
  const operations = useOperations(asked.service);
  const { params } = usePlace();
  const { query, lost } = fromBuilder(asked);
  const first = useRef<HTMLInputElement>(null);
  // Folded on a phone only; elsewhere all filters are visible.
  const [open, setOpen] = useState(false);
  const count = [
    asked.operation,
    asked.status,
    asked.min,
    asked.max,
    ...asked.attributes,
    asked.start !== DEFAULT_START || asked.end !== "now",
    asked.sort !== "newest",
  ].filter(Boolean).length;
  useShortcuts({ "/": () => first.current?.focus() });
  return (
    <form
      className={open ? "filters open" : "filters"}
      role="search"
      aria-label="Search traces"
      onSubmit={(event) => event.preventDefault()}
    >
      <Combobox
        className="always"
        inputRef={first}
        label="Service"
        testid="service"
        placeholder="All services"
        value={asked.service}
        choices={(services.data?.services ?? []).map((service) => ({
          value: service.name,
          mark: <span className="swatch" style={serviceStyle(service.name)} />,
          note: formatCount(service.spans),
        }))}
        onChoose={(service) => setParams({ service, operation: null }, "push")}
      />
      <button
        type="button"
        className="button toggle always"
        aria-expanded={open}
        aria-pressed={count > 0}
        onClick={() => setOpen(!open)}
      >
        {count > 0 ? `Filters: ${count}` : "Filters"}
      </button>
      <Combobox
        label="Operation"
        testid="operation"
        placeholder={asked.service === "" ? "Operation" : "All operations"}
        title={asked.service === "" ? "Choose a service first" : undefined}
        disabled={asked.service === "" && asked.operation === ""}
        value={asked.operation}
        choices={[
          // The same name may be both served and called.
          ...new Map((operations.data?.operations ?? []).map((one) => [one.name, one])).values(),
        ].map((one) => ({ value: one.name, note: formatCount(one.spans) }))}
        onChoose={(operation) => setParams({ operation }, "push")}
      />
      <div className="segments" role="group" aria-label="Status">
        {STATUSES.map(([value, name]) => (
          <button
            key={value}
            type="button"
            className="button"
            aria-pressed={asked.status === value}
            data-testid={`status-${value || "any"}`}
            onClick={() => setParams({ status: value }, "push")}
          >
            {name}
          </button>
        ))}
      </div>
      <div className="durations">
        <DurationField name="min" label="At least" value={asked.min} />–
        <DurationField name="max" label="At most" value={asked.max} />
      </div>
      <AttributeField
        attributes={asked.attributes}
        where={{ service: asked.service, start: asked.start, end: asked.end }}
      />
      <TimeRange
        start={asked.start}
        end={asked.end}
        set={asked.start !== DEFAULT_START || asked.end !== "now"}
        onChange={(start, end) =>
          setParams(
            { start: start === DEFAULT_START ? null : start, end: end === "now" ? null : end },
            "push",
          )
        }
      />
      <select
        className="sort"
        aria-label="Order"
        data-testid="sort"
        data-set={asked.sort !== "newest"}
        value={asked.sort}
        onChange={(event) =>
          setParams({ sort: event.target.value === "newest" ? null : event.target.value }, "push")
        }
      >
        {SORTS.map(([sort, name]) => (
          <option key={sort} value={sort}>
            {name} first
          </option>
        ))}
      </select>
      <select
        className="limit"
        aria-label="Most traces to list"
        data-set={asked.limit !== DEFAULT_LIMIT}
        value={asked.limit}
        onChange={(event) => setParams({ limit: event.target.value })}
      >
        {[...new Set([...LIMITS, asked.limit])].map((limit) => (
          <option key={limit} value={limit}>
            {limit} traces
          </option>
        ))}
      </select>
      <button
        type="button"
        className="button"
        aria-pressed={asked.live}
        title="Ask again every 2 seconds"
        data-testid="live"
        onClick={() => setParams({ live: asked.live ? null : "1" })}
      >
        <span className="live-dot" />
        Live
      </button>
      <button
        type="button"
        className="button icon"
        title="Search again"
        aria-label="Search again"
        data-testid="again"
        onClick={onAgain}
      >
        ↻
      </button>
      <button
        type="button"
        className="button"
        aria-pressed={params.get("chart") === "heat"}
        title="Durations of all spans that fit, counted; not only of the listed traces"
        data-testid="chart-heat"
        onClick={() => setParams({ chart: params.get("chart") === "heat" ? null : "heat" })}
      >
        Heat map
      </button>
      <button
        type="button"
        className="button"
        title={
          lost.length > 0
            ? `The same search as a query; it does not say that ${lost.join(" and ")}`
            : "The same search as a query"
        }
        data-testid="traceql"
        onClick={() => setParams({ q: query, live: null }, "push")}
      >
        TraceQL
      </button>
      {narrowed(asked) && (
        <button
          type="button"
          className="button plain"
          data-testid="clear-filters"
          onClick={(event) => {
            // The button goes. From the keyboard (no clicks are counted), the first field has the
            // focus.
            if (event.detail === 0) first.current?.focus();
            setParams({ ...WIDE }, "push");
          }}
        >
          Clear filters
        </button>
      )}
    </form>
  );
}

function DurationField(props: { name: "min" | "max"; label: string; value: string }) {
  const [typed, setTyped] = useState(props.value);
  useEffect(() => setTyped(props.value), [props.value]);
  const wrong = typed.trim() !== "" && canonicalDuration(typed) === null;
  const commit = () => {
    if (wrong) return;
    const value = canonicalDuration(typed);
    setTyped(value ?? "");
    if (value !== (canonicalDuration(props.value) ?? null))
      setParams({ [props.name]: value }, "push");
  };
  return (
    <span className="field">
      <input
        aria-label={`${props.label} this long`}
        data-testid={props.name}
        data-set={props.value !== ""}
        aria-invalid={wrong}
        aria-describedby={wrong ? `${props.name}-problem` : undefined}
        title={`${props.label}: 10ms, 1.5s, 200us`}
        placeholder={props.name === "min" ? "min 0" : "max ∞"}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        onBlur={commit}
        onKeyDown={(event) => event.key === "Enter" && commit()}
      />
      {wrong && (
        <p className="problem" id={`${props.name}-problem`} role="alert">
          Not a duration. Right are 10ms, 1.5s, 200us, 2m.
        </p>
      )}
    </span>
  );
}
