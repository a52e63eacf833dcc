import { useRef } from "react";
import type { ReactNode } from "react";
import { useCauses } from "../../api/queries";
import type { CauseSuspect, CauseTrace, Causes } from "../../api/types";
import { Link, setParams, usePlace } from "../../app/router";
import { useScroll } from "../../app/visit";
import { useZone } from "../../app/zone";
import { formatDuration } from "../../model/duration";
import { formatCount, formatShare, plural } from "../../model/number";
import { DEFAULT_START, formatSecond, milliseconds } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { Prose } from "../../parts/Prose";
import { Service } from "../../parts/Service";
import { TimeRange } from "../../parts/TimeRange";

/** Who made a time slow or failing, and by what evidence. */
export function CausePage() {
  const { params, entry } = usePlace();
  const start = params.get("start");
  const end = params.get("end");
  const service = params.get("service");
  const causes = useCauses(start, end, service);
  // Where no range is given, the one that was looked at is shown.
  const found = start === null && end === null ? causes.data?.range : undefined;
  const page = useRef<HTMLElement>(null);
  useScroll(page, entry, "causes", causes.data !== undefined);
  return (
    <main className="page" ref={page} tabIndex={-1} data-testid="causes-page">
      <div className="overview">
        <header className="overview-head">
          <h1>Causes</h1>
          {service && (
            <button className="button" onClick={() => setParams({ service: null }, "push")}>
              Only below {service} ×
            </button>
          )}
          {(start || end) && (
            <button
              className="button"
              onClick={() => setParams({ start: null, end: null }, "push")}
              title="Finds the latest minutes that are unlike the hours before"
            >
              Find the time
            </button>
          )}
          <TimeRange
            start={start ?? found?.start_unix_nano ?? DEFAULT_START}
            end={end ?? found?.end_unix_nano ?? "now"}
            set={start !== null || end !== null}
            onChange={(start, end) => setParams({ start, end: end === "now" ? null : end }, "push")}
          />
        </header>
        {causes.error && <Failure error={causes.error} />}
        {causes.data ? (
          <Story causes={causes.data} />
        ) : (
          !causes.error && <Blank title="Comparing with the time before" busy />
        )}
      </div>
    </main>
  );
}

function Story({ causes }: { causes: Causes }) {
  const { suspects, changes, warnings } = causes;
  const clear = suspects.filter((one) => one.stands_out);
  const unclear = suspects.filter((one) => !one.stands_out);
  return (
    <>
      {warnings.map((one) => (
        <div key={one} className="notice warn">
          <Prose text={one} />
        </div>
      ))}
      <section
        className="card cause-story"
        data-testid="cause-summary"
        data-stands-out={causes.stands_out}
      >
        <p className="cause-summary">
          <Prose text={causes.summary} />
        </p>
        <p className="quiet">
          <Compared causes={causes} />
        </p>
      </section>
      {clear.map((suspect) => (
        <Suspect key={suspect.service} suspect={suspect} causes={causes} />
      ))}
      {changes.length > 0 && (
        <section className="card" aria-labelledby="began-title" data-testid="cause-changes">
          <h2 id="began-title">Began or ended</h2>
          <ul className="said">
            {changes.map((change) => (
              <li key={change.text}>
                <Prose text={change.text} />
                {change.since_unix_nano !== null && (
                  <span className="quiet">
                    {" "}
                    since <Moment nano={change.since_unix_nano} />
                  </span>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
      {unclear.length > 0 && (
        <section className="card" aria-labelledby="unclear-title">
          <h2 id="unclear-title">Less clear, and probably nothing</h2>
          <ul className="said">
            {unclear.map((one) => (
              <li key={one.service} className="quiet">
                <Service name={one.service} /> <Prose text={one.evidence[0]?.text ?? ""} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function Moment({ nano }: { nano: string }) {
  const zone = useZone();
  return <>{formatSecond(milliseconds(nano), Date.now(), zone)}</>;
}

function Compared({ causes }: { causes: Causes }) {
  const { range, usual_range } = causes;
  const length = Number(range.end_unix_nano) - Number(range.start_unix_nano);
  return (
    <>
      {causes.found ? "Unusual since " : "From "}
      <Moment nano={range.start_unix_nano} />, for {formatDuration(length)}:{" "}
      {formatCount(causes.spans)} spans
      {usual_range && (
        <>
          ; compared with {plural(causes.usual_ranges, "usual range")} since{" "}
          <Moment nano={usual_range.start_unix_nano} />: {formatCount(causes.usual_spans)} spans
        </>
      )}
      .
    </>
  );
}

/** A suspect: the evidence, and beside it where, since when, and traces that show it. */
function Suspect({ suspect, causes }: { suspect: CauseSuspect; causes: Causes }) {
  const { service, operation, began_unix_nano } = suspect;
  const range = new URLSearchParams({
    start: causes.range.start_unix_nano,
    end: causes.range.end_unix_nano,
  });
  return (
    <section className="card" data-testid="suspect" data-service={service}>
      <h2>
        <Link to={`/service/${encodeURIComponent(service)}?${range}`}>
          <Service name={service} />
        </Link>
        {operation && <code>{operation}</code>}
        {began_unix_nano !== null && (
          <span className="badge">
            began about <Moment nano={began_unix_nano} />
          </span>
        )}
      </h2>
      <div className="cause-suspect">
        <div>
          <List title="Evidence">
            {suspect.evidence.map((one) => (
              <li key={one.text} data-kind={one.kind}>
                <Prose text={one.text} />
              </li>
            ))}
          </List>
          {suspect.attributes.length > 0 && (
            <List title="Only with">
              {suspect.attributes.map(({ key, value, bad_share, good_share }) => (
                <li key={`${key} ${value}`}>
                  <code>
                    {key} = {value}
                  </code>
                  : {formatShare(bad_share)} of bad requests, {formatShare(good_share)} of good ones
                </li>
              ))}
            </List>
          )}
          {suspect.places.length > 0 && (
            <List title="Where">
              {suspect.places.map((one) => (
                <li key={one}>{one}</li>
              ))}
            </List>
          )}
          {suspect.callers.length > 0 && <p>Called by {suspect.callers.join(", ")}.</p>}
        </div>
        <div>
          <Traces title="Traces that show it" traces={suspect.bad_traces} />
          <Traces title="A usual one" traces={suspect.usual_traces} />
        </div>
      </div>
    </section>
  );
}

function List({ title, children }: { title: string; children: ReactNode }) {
  return (
    <>
      <h3>{title}</h3>
      <ul>{children}</ul>
    </>
  );
}

function Traces({ title, traces }: { title: string; traces: readonly CauseTrace[] }) {
  if (traces.length === 0) return null;
  return (
    <List title={title}>
      {traces.map((one) => (
        <li key={one.trace_id}>
          <Link to={`/trace/${one.trace_id}`}>{one.shows}</Link>{" "}
          <span className="quiet">
            <Moment nano={one.start_unix_nano} />
          </span>
        </li>
      ))}
    </List>
  );
}
