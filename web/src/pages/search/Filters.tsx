import { useEffect, useRef, useState } from "react";
import { useOperations, useServices } from "../../api/queries";
import { setParams } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { canonicalDuration } from "../../model/duration";
import { formatCount } from "../../model/number";
import { DEFAULT_START } from "../../model/time";
import { Combobox } from "../../parts/Combobox";
import { serviceStyle } from "../../parts/Service";
import { TimeRange } from "../../parts/TimeRange";
import { LIMITS } from "./question";
import type { Asked } from "./question";

const STATUSES = [
  ["", "Any"],
  ["error", "Errors"],
  ["ok", "OK"],
] as const;

export function Filters({ asked }: { asked: Asked }) {
  const services = useServices(asked.live);
  const operations = useOperations(asked.service);
  const first = useRef<HTMLInputElement>(null);
  useShortcuts({ "/": () => first.current?.focus() });
  return (
    <form
      className="filters"
      role="search"
      aria-label="Search traces"
      onSubmit={(event) => event.preventDefault()}
    >
      <Combobox
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
      <Combobox
        label="Operation"
        testid="operation"
        placeholder={asked.service === "" ? "Operation: choose a service" : "All operations"}
        disabled={asked.service === "" && asked.operation === ""}
        value={asked.operation}
        choices={[
          // One name may be both served and called.
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
      <AttributeField attributes={asked.attributes} />
      <TimeRange
        start={asked.start}
        end={asked.end}
        onChange={(start, end) =>
          setParams(
            { start: start === DEFAULT_START ? null : start, end: end === "now" ? null : end },
            "push",
          )
        }
      />
      <select
        className="limit"
        aria-label="Most traces to list"
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
    setParams({ [props.name]: value });
  };
  return (
    <input
      aria-label={`${props.label} this long`}
      data-testid={props.name}
      aria-invalid={wrong}
      title={
        wrong
          ? "Not a duration. Right are: 10ms, 1.5s, 200us, 2m"
          : `${props.label}: 10ms, 1.5s, 200us`
      }
      placeholder={props.name === "min" ? "min 0" : "max ∞"}
      value={typed}
      onChange={(event) => setTyped(event.target.value)}
      onBlur={commit}
      onKeyDown={(event) => event.key === "Enter" && commit()}
    />
  );
}

function AttributeField({ attributes }: { attributes: readonly string[] }) {
  const [typed, setTyped] = useState("");
  const wrong = typed !== "" && !/^[^=\s]/.test(typed);
  const add = () => {
    const text = typed.trim();
    if (!/^[^=]+=./.test(text)) return;
    setParams({ attribute: [...new Set([...attributes, text])] }, "push");
    setTyped("");
  };
  return (
    <div className="attributes">
      {attributes.map((one) => (
        <span className="pill" key={one} title={one}>
          <span className="cut">{one}</span>
          <button
            type="button"
            className="button tiny plain"
            aria-label={`Remove ${one}`}
            onClick={() =>
              setParams({ attribute: attributes.filter((other) => other !== one) }, "push")
            }
          >
            ×
          </button>
        </span>
      ))}
      <input
        aria-label="Attribute"
        data-testid="attribute"
        aria-invalid={wrong}
        title="An attribute and its value; Enter adds it. For example http.response.status_code=404"
        placeholder="attribute=value"
        value={typed}
        spellCheck={false}
        onChange={(event) => setTyped(event.target.value)}
        onBlur={add}
        onKeyDown={(event) => event.key === "Enter" && add()}
      />
    </div>
  );
}
