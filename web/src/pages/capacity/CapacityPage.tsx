import { useEffect, useState } from "react";
import { useCapacity } from "../../api/queries";
import type { Capacity, PredictedLoad, RateForecast, ScaledEntrance } from "../../api/types";
import { Link, setParams, usePlace } from "../../app/router";
import { useZone } from "../../app/zone";
import {
  canonical,
  entranceName,
  FACTORS,
  factorText,
  OTHERS,
  peakText,
  roomOf,
  scalesOf,
  scaleTexts,
  stepOf,
  withScale,
} from "../../model/capacity";
import { formatDuration } from "../../model/duration";
import { formatRate, formatShare, plural } from "../../model/number";
import { formatSecond, milliseconds } from "../../model/time";
import { AnalysisPage } from "../../parts/AnalysisPage";
import { OperationLink } from "../../parts/OperationLink";
import { RowTable } from "../../parts/RowTable";
import type { Column } from "../../parts/RowTable";
import { Service } from "../../parts/Service";
import { usePageRange, withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

/** Entrances that have a slider. The others follow the one for all. */
const MOST_SLIDERS = 40;

/** How far ahead rates are forecast. */
const AHEAD: readonly (readonly [string, string])[] = [
  ["", "now"],
  ["1h", "in an hour (forecast)"],
  ["24h", "tomorrow at this time (forecast)"],
  ["168h", "in a week (forecast)"],
];

type Set = (name: string, value: string | null, how: "push" | "replace") => void;

/** What every service gets if entrances are called more often, held against observed peaks. */
export default function CapacityPage({ when }: { when: string }) {
  const { params } = usePlace();
  const range = usePageRange();
  const { by, wrong } = scalesOf(params.getAll("scale"));
  const isOperations = params.get("of") === "operations";
  const forecast = params.get("forecast") ?? "";
  const answer = useCapacity(range, scaleTexts(by), forecast);
  const set: Set = (name, value, how) =>
    setParams({ scale: scaleTexts(withScale(by, name, value)) }, how);
  return (
    <AnalysisPage
      title="Capacity"
      when={when}
      testid="capacity"
      range={range}
      answer={answer}
      tools={
        <>
          <button
            type="button"
            className="button"
            disabled={by.size === 0}
            data-testid="reset"
            onClick={() => setParams({ scale: null }, "push")}
          >
            As now
          </button>
          <span className="segments" role="group" aria-label="Loads of">
            {([false, true] as const).map((one) => (
              <button
                key={String(one)}
                type="button"
                className="button"
                aria-pressed={isOperations === one}
                onClick={() => setParams({ of: one ? "operations" : null }, "push")}
              >
                {one ? "Operations" : "Services"}
              </button>
            ))}
          </span>
          <label>
            Rates of{" "}
            <select
              data-testid="forecast"
              value={forecast}
              onChange={(event) => setParams({ forecast: event.target.value || null }, "push")}
            >
              {AHEAD.map(([value, name]) => (
                <option key={value} value={value}>
                  {name}
                </option>
              ))}
              {!AHEAD.some(([value]) => value === forecast) && (
                <option value={forecast}>in {forecast} (forecast)</option>
              )}
            </select>
          </label>
          {wrong.length > 0 && (
            <span className="warn-text" role="alert">
              Not understood: {wrong.join("; ")}. Write <code>SERVICE OPERATION=3x</code> or{" "}
              <code>=200/s</code>.
            </span>
          )}
        </>
      }
    >
      {(found) => (
        <>
          <section className="card" aria-labelledby="what-if-title" data-testid="what-if">
            <h2 id="what-if-title">If entrances were called so often</h2>
            <Sliders found={found} by={by} set={set} />
          </section>
          <Loads found={found} isOperations={isOperations} range={range} />
        </>
      )}
    </AnalysisPage>
  );
}

function Sliders(props: { found: Capacity; by: ReadonlyMap<string, string>; set: Set }) {
  const { found, by, set } = props;
  const shown = found.entrances.slice(0, MOST_SLIDERS);
  const all = by.get(OTHERS) ?? "1x";
  return (
    <div className="sliders">
      <Slider
        name={OTHERS}
        label="All others"
        factor={all.endsWith("x") ? Number(all.slice(0, -1)) : 1}
        value={all}
        rates={null}
        set={set}
      />
      {shown.map((one) => {
        const name = entranceName(one);
        return (
          <Slider
            key={name}
            name={name}
            label={name}
            factor={one.factor}
            value={by.get(name) ?? `${Number(one.factor.toFixed(2))}x`}
            rates={one}
            set={set}
          />
        );
      })}
      {found.entrances.length > shown.length && (
        <p className="quiet">
          {plural(found.entrances.length - shown.length, "more entrance")} with fewer runs{" "}
          {found.entrances.length - shown.length === 1 ? "follows" : "follow"} all others.
        </p>
      )}
    </div>
  );
}

function Slider(props: {
  name: string;
  label: string;
  factor: number;
  value: string;
  rates: ScaledEntrance | null;
  set: Set;
}) {
  const { name, rates, set } = props;
  const [step, setStep] = useState(stepOf(props.factor));
  const [typed, setTyped] = useState<string | null>(null);
  useEffect(() => setStep(stepOf(props.factor)), [props.factor]);
  const take = (text: string) => {
    const value = canonical(text);
    setTyped(null);
    if (value !== null) set(name, value, "push");
  };
  const isWrong = typed !== null && canonical(typed) === null;
  return (
    <div className="slider" data-entrance={name}>
      <span className="cut" title={props.label}>
        {rates ? (
          <>
            <Service name={rates.service} /> {rates.operation}
          </>
        ) : (
          props.label
        )}
      </span>
      <input
        type="range"
        min={0}
        max={FACTORS.length - 1}
        step={1}
        value={step}
        aria-label={`Rate of ${props.label}`}
        aria-valuetext={factorText(FACTORS[step]!)}
        onChange={(event) => setStep(Number(event.target.value))}
        // The answer is asked for when the slider is let go, not at each step of a drag.
        onPointerUp={() => set(name, `${FACTORS[step]}x`, "push")}
        onKeyUp={() => {
          if (step !== stepOf(props.factor)) set(name, `${FACTORS[step]}x`, "replace");
        }}
      />
      <input
        type="text"
        className="factor"
        aria-label={`Factor or rate of ${props.label}, such as 3x or 200/s`}
        aria-invalid={isWrong}
        title="A factor or a rate, such as 3x or 200/s"
        value={typed ?? (step === stepOf(props.factor) ? props.value : `${FACTORS[step]}x`)}
        spellCheck={false}
        onChange={(event) => setTyped(event.target.value)}
        onBlur={() => typed !== null && take(typed)}
        onKeyDown={(event) => event.key === "Enter" && typed !== null && take(typed)}
      />
      <span className="number">
        {rates && (
          <>
            {formatRate(rates.now_per_second)}
            {rates.forecast && <Basis of={rates.forecast} />}
            {Math.abs(rates.factor - 1) > 1e-9 && (
              <>
                {" → "}
                <b>{formatRate(rates.predicted_per_second)}</b>
              </>
            )}
          </>
        )}
      </span>
    </div>
  );
}

/** What a forecast is made from, and how sure it is. */
function Basis({ of }: { of: RateForecast }) {
  const basis = {
    former_weeks: `same hour of ${plural(of.hours, "week")}`,
    former_days: `same hour of ${plural(of.hours, "day")}`,
    trend: `trend of ${plural(of.hours, "hour")}`,
    as_now: "as in the last hour, a guess",
  }[of.method];
  return (
    <span
      className="quiet"
      data-testid="basis"
      title={`${formatRate(of.low_per_second)} to ${formatRate(of.high_per_second)}`}
    >
      {" "}
      ({basis}, {formatShare(of.confidence)} sure)
    </span>
  );
}

function Loads(props: { found: Capacity; isOperations: boolean; range: PageRange }) {
  const { found, isOperations, range } = props;
  const zone = useZone();
  const loads = isOperations ? found.operations : found.services;
  const beyond = loads.filter((one) => roomOf(one.to_peak) === "beyond").length;
  return (
    <section className="card" aria-labelledby="loads-title">
      <h2 id="loads-title">
        {beyond === 0
          ? "Within what was seen"
          : `${plural(beyond, isOperations ? "operation" : "service")} beyond what anybody has seen`}
      </h2>
      <RowTable
        label="Table of loads"
        testid="loads"
        rows={loads}
        columns={columns(range, (at) => formatSecond(at, Date.now(), zone))}
        rowKey={(one) => `${one.service}\n${one.operation ?? ""}`}
        rowData={(one) => ({
          service: one.service,
          now: one.now_per_second,
          then: one.predicted_per_second,
          room: roomOf(one.to_peak),
        })}
      />
      <p className="folded quiet">
        A peak is the highest rate in {formatDuration(found.peak_seconds * 1e9)} of this time. The
        prediction is linear: caches, batches and retries under overload break it.
      </p>
    </section>
  );
}

const columns = (
  range: PageRange,
  moment: (milliseconds: number) => string,
): readonly Column<PredictedLoad>[] => [
  {
    id: "name",
    name: "Called",
    by: (one) => `${one.service} ${one.operation ?? ""}`,
    show: (one) =>
      one.operation === null ? (
        <Link to={withRange("/sources", range, { service: one.service })}>
          <Service name={one.service} />
        </Link>
      ) : (
        <OperationLink of={{ service: one.service, operation: one.operation }} range={range} />
      ),
  },
  {
    id: "now",
    name: "Now",
    by: (one) => one.now_per_second,
    show: (one) => formatRate(one.now_per_second),
  },
  {
    id: "then",
    name: "Then",
    by: (one) => one.predicted_per_second,
    show: (one) => formatRate(one.predicted_per_second),
  },
  {
    id: "peak",
    name: "Peak seen",
    by: (one) => one.peak_per_second,
    show: (one) => (
      <span title={`at ${moment(milliseconds(one.peak_unix_nano))}`}>
        {formatRate(one.peak_per_second)}
      </span>
    ),
  },
  {
    id: "to-peak",
    name: "Of peak",
    title: "Above 100% nobody has seen such a load",
    by: (one) => one.to_peak,
    show: (one) => (
      <span className="to-peak" data-room={roomOf(one.to_peak)}>
        <span aria-hidden="true">
          <span style={{ width: `${Math.min(1, one.to_peak / 2) * 100}%` }} />
        </span>
        {peakText(one.to_peak)}
      </span>
    ),
  },
  {
    id: "busy",
    name: "Busy then",
    title: "How many calls work at a time, in the mean, if they take as long as now",
    by: (one) => one.busy_predicted,
    show: (one) => one.busy_predicted.toFixed(2),
  },
  {
    id: "from",
    name: "Most from",
    words: true,
    show: (one) => {
      const most = one.chains[0];
      return (
        most && (
          <Link to={withRange(`/chains/${most.id}`, range)}>
            {most.service} {most.operation} {formatRate(most.predicted_per_second)}
          </Link>
        )
      );
    },
  },
];
