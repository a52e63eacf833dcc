import { Fragment, useRef, useState } from "react";
import { useAttributeKeys, useJourney } from "../../api/queries";
import type { Journey, JourneyEvidence, JourneyStep, JourneyTrace } from "../../api/types";
import { Link, setParams, usePlace } from "../../app/router";
import { useScroll } from "../../app/visit";
import { useZone } from "../../app/zone";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, plural } from "../../model/number";
import { formatSecond, milliseconds } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { Prose } from "../../parts/Prose";
import { Service } from "../../parts/Service";
import { TimeRange } from "../../parts/TimeRange";

const WEEK = "-7d";
const PREFIX = "spanwise.key.";

/** What happened for one business key, over services and traces. */
export function JourneyPage() {
  const { params, entry } = usePlace();
  const key = params.get("key") ?? "";
  const value = params.get("value") ?? "";
  const start = params.get("start") ?? WEEK;
  const end = params.get("end") ?? "now";
  const answer = useJourney(key, value, start, end);
  const page = useRef<HTMLElement>(null);
  useScroll(page, entry, "journey", answer.data !== undefined);
  const isAsked = key !== "" && value !== "";
  return (
    <main className="page" ref={page} tabIndex={-1} data-testid="journey-page">
      <div className="overview">
        <header className="overview-head">
          <h1>Journey</h1>
          <TimeRange
            start={start}
            end={end}
            set={start !== WEEK || end !== "now"}
            onChange={(start, end) =>
              setParams(
                { start: start === WEEK ? null : start, end: end === "now" ? null : end },
                "push",
              )
            }
          />
        </header>
        <KeyForm key={`${key} ${value}`} asked={[key, value]} start={start} end={end} />
        {answer.error && isAsked && <Failure error={answer.error} />}
        {!answer.data && !answer.error && isAsked && <Blank title="Looking for the key" busy />}
        {answer.data && isAsked && <Told journey={answer.data} />}
      </div>
    </main>
  );
}

function KeyForm(props: { asked: [key: string, value: string]; start: string; end: string }) {
  const [key, setKey] = useState(props.asked[0]);
  const [value, setValue] = useState(props.asked[1]);
  const known = useAttributeKeys({ service: "", start: props.start, end: props.end }, PREFIX);
  return (
    <section className="card" aria-label="Key">
      <form
        className="journey-form"
        onSubmit={(event) => {
          event.preventDefault();
          setParams({ key: key.trim() || null, value: value.trim() || null }, "push");
        }}
      >
        <label>
          Key{" "}
          <input
            type="text"
            list="journey-keys"
            value={key}
            spellCheck={false}
            placeholder="order"
            data-testid="journey-key"
            onChange={(event) => setKey(event.target.value)}
          />
        </label>
        <datalist id="journey-keys">
          {(known.data?.keys ?? []).map((one) => (
            <option key={one.key} value={one.key.slice(PREFIX.length)} />
          ))}
        </datalist>
        <label>
          Value{" "}
          <input
            type="text"
            value={value}
            spellCheck={false}
            placeholder="4711"
            data-testid="journey-value"
            onChange={(event) => setValue(event.target.value)}
          />
        </label>
        <button type="submit" className="button">
          Find
        </button>
        <span className="quiet">
          What happened for an order, a user or an article. Of a key that agents hash, the hash (
          <code>spanwise key hash</code>).
        </span>
      </form>
    </section>
  );
}

function Told({ journey }: { journey: Journey }) {
  return (
    <>
      {journey.warnings.map((one) => (
        <div key={one} className="notice warn">
          <Prose text={one} />
        </div>
      ))}
      {journey.steps.length > 0 && (
        <>
          <section className="card" aria-labelledby="steps-title">
            <h2 id="steps-title">
              <code>
                {journey.key} = {journey.value}
              </code>
              {journey.hashed && <span className="badge">hash</span>}
            </h2>
            <p className="quiet journey-facts">
              {plural(journey.total_steps, "step")} in {plural(journey.total_traces, "trace")}, over{" "}
              {formatDuration(length(journey.steps))}. Something ran in{" "}
              {formatDuration(nano(journey.busy_nano))} of that.
            </p>
            <Steps journey={journey} />
          </section>
          <section className="card" aria-labelledby="journey-traces-title">
            <h2 id="journey-traces-title">Traces</h2>
            <Traces traces={journey.traces} />
          </section>
        </>
      )}
    </>
  );
}

function length(steps: readonly JourneyStep[]): number {
  const first = BigInt(steps[0]!.start_unix_nano);
  const ends = steps.map(
    (step) => Number(BigInt(step.start_unix_nano) - first) + nano(step.duration_nano),
  );
  return Math.max(...ends);
}

function Moment({ nano }: { nano: string }) {
  const zone = useZone();
  return <>{formatSecond(milliseconds(nano), Date.now(), zone)}</>;
}

function Steps({ journey }: { journey: Journey }) {
  const gaps = new Map(journey.gaps.map((gap) => [gap.before, gap.duration_nano]));
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of steps">
      <table className="red-table journey-table" data-testid="journey-steps">
        <thead>
          <tr>
            <th scope="col">Started</th>
            <th scope="col">Service</th>
            <th scope="col">Operation</th>
            <th scope="col" className="number">
              Took
            </th>
            <th scope="col">Status</th>
            <th scope="col">How it came here</th>
            <th scope="col">Trace</th>
          </tr>
        </thead>
        <tbody>
          {journey.steps.map((step, at) => (
            <Fragment key={`${step.trace_id} ${step.span_id} ${at}`}>
              {gaps.has(at) && (
                <tr className="journey-gap" data-gap={gaps.get(at)}>
                  <td className="quiet" colSpan={7}>
                    nothing for {formatDuration(nano(gaps.get(at)))}
                  </td>
                </tr>
              )}
              <tr data-service={step.service} data-attempt={step.attempt}>
                <th scope="row">
                  <Moment nano={step.start_unix_nano} />
                </th>
                <td>
                  <Service name={step.service} />
                </td>
                <td>{step.operation}</td>
                <td className="number">{formatDuration(nano(step.duration_nano))}</td>
                <td className={step.failed ? "is-error" : undefined}>{status(step)}</td>
                <td>{how(journey, at)}</td>
                <td>
                  <Link to={`/trace/${step.trace_id}`}>
                    <code>{step.trace_id.slice(0, 8)}</code>
                  </Link>
                </td>
              </tr>
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function status({ failed, status_code, error }: JourneyStep): string {
  if (!failed) return status_code === null ? "ok" : String(status_code);
  return `failed${error ? `: ${error}` : status_code === null ? "" : `: ${status_code}`}`;
}

const EVIDENCE: Record<JourneyEvidence, (from: string) => string> = {
  link: (from) => `linked to ${from}`,
  message: (from) => `message of ${from}`,
  message_in_time: (from) => `message, perhaps of ${from}`,
  time: (from) => `after ${from}`,
};

/** A further attempt, and a hand-off. */
function how(journey: Journey, at: number): string {
  const words = [];
  const attempt = journey.steps[at]!.attempt;
  if (attempt > 1) words.push(`attempt ${attempt}`);
  const hand = journey.hand_offs.find((one) => one.to === at);
  if (hand) {
    const from = journey.steps[hand.from]?.service ?? "?";
    words.push(
      `${EVIDENCE[hand.evidence](from)}, ${formatDuration(nano(hand.duration_nano))} later`,
    );
  }
  return words.join("; ");
}

function Traces({ traces }: { traces: readonly JourneyTrace[] }) {
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of traces">
      <table className="red-table journey-table" data-testid="journey-traces">
        <thead>
          <tr>
            <th scope="col">Started</th>
            <th scope="col">Began with</th>
            <th scope="col" className="number">
              Took
            </th>
            <th scope="col" className="number">
              Spans
            </th>
            <th scope="col" className="number">
              Errors
            </th>
            <th scope="col">Services</th>
          </tr>
        </thead>
        <tbody>
          {traces.map((trace) => (
            <tr key={trace.trace_id} data-trace={trace.trace_id}>
              <th scope="row">
                <Moment nano={trace.start_unix_nano} />
              </th>
              <td>
                <Link to={`/trace/${trace.trace_id}`}>
                  <Service name={trace.service ?? "?"} /> <span>{trace.operation}</span>
                </Link>
              </td>
              <td className="number">{formatDuration(nano(trace.duration_nano))}</td>
              <td className="number">{formatCount(trace.spans)}</td>
              <td className={`number ${trace.errors > 0 ? "is-error" : ""}`}>
                {formatCount(trace.errors)}
              </td>
              <td>{trace.services.join(", ")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
