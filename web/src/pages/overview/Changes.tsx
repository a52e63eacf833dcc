import { useMemo } from "react";
import { useGraph } from "../../api/queries";
import { useErrors } from "../../api/red";
import type { Graph } from "../../api/types";
import { Link, setParams, usePlace } from "../../app/router";
import { changes, newErrors, sorted } from "../../model/changes";
import type { Change } from "../../model/changes";
import { formatDuration } from "../../model/duration";
import { formatCount, formatShare, plural } from "../../model/number";
import { theirs, UNKNOWN } from "../../model/theirs";
import { unixNano } from "../../model/time";
import { quoted } from "../../model/traceql";
import { Service } from "../../parts/Service";
import { withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

/** Changes that are listed at first. */
const FEW = 6;

/** What is different in this range from the range of the same length before it. */
export function Changes({ range, now }: { range: PageRange; now: Graph }) {
  const { params } = usePlace();
  const { from, to } = range.on;
  const length = to - from;
  const before = useGraph(unixNano((from - length) * 1000), unixNano(from * 1000), false);
  const errorsNow = useErrors(from, to);
  const errorsBefore = useErrors(from - length, from);
  const found = useMemo(() => {
    if (!before.data || before.isPlaceholderData) return undefined;
    const graph = changes(before.data, now);
    if (graph === null) return null;
    const errors =
      errorsBefore.data && errorsNow.data ? newErrors(errorsBefore.data, errorsNow.data) : [];
    const ours = (one: Change) =>
      one.services.every((name) => name !== UNKNOWN && theirs(name) === null);
    return sorted([...graph, ...errors]).filter(ours);
  }, [before.data, before.isPlaceholderData, now, errorsBefore.data, errorsNow.data]);
  const all = params.get("changes") === "all";
  const shown = all ? found : found?.slice(0, FEW);
  return (
    <section className="card" aria-labelledby="changes-title" data-testid="changes">
      <h2 id="changes-title">
        What changed
        <span className="badge">against the {formatDuration(length * 1e9)} before</span>
        <Link className="button tiny" to={withRange("/causes", range)}>
          Find the cause
        </Link>
      </h2>
      <ul className="said">
        {found === undefined && <li className="quiet">Comparing…</li>}
        {found === null && (
          <li className="quiet">
            Nothing is stored of the time before this range, so nothing can be said to be new.
          </li>
        )}
        {found?.length === 0 && (
          <li className="quiet">
            The same services, calls and errors as before; none has notably more errors or is
            slower.
          </li>
        )}
        {shown?.map((one) => (
          <li key={`${one.kind} ${one.services.join(" ")} ${one.text ?? ""}`} data-kind={one.kind}>
            <Sentence change={one} range={range} />
          </li>
        ))}
        {found && found.length > FEW && (
          <li>
            <button
              type="button"
              className="button tiny"
              aria-expanded={all}
              onClick={() => setParams({ changes: all ? null : "all" })}
            >
              {all ? "Show fewer" : `Show all ${found.length}`}
            </button>
          </li>
        )}
      </ul>
    </section>
  );
}

function Sentence({ change, range }: { change: Change; range: PageRange }) {
  const { kind, services, before = 0, now = 0, count, text = "" } = change;
  const name = (at: number) => (
    <Link to={withRange(`/service/${encodeURIComponent(services[at]!)}`, range)}>
      <Service name={services[at]!} />
    </Link>
  );
  switch (kind) {
    case "errors":
      return (
        <>
          <b className="is-error">More errors</b> {name(0)} {formatShare(before)} →{" "}
          {formatShare(now)}
        </>
      );
    case "slower":
      return (
        <>
          <b className="warn-text">Slower</b> {name(0)} p95 {formatDuration(before)} →{" "}
          {formatDuration(now)}
        </>
      );
    case "new-error":
      return (
        <>
          <b className="is-error">New error</b> {name(0)}{" "}
          <Link
            className="anywhere"
            to={withRange("/search", range, {
              q: `{ resource.service.name = ${quoted(services[0]!)} && status = error }`,
            })}
          >
            {text === "" ? "(no text)" : text}
          </Link>{" "}
          <span className="quiet">{formatCount(count)} times</span>
        </>
      );
    case "new-service":
    case "gone-service":
      return (
        <>
          <b>{kind === "new-service" ? "New" : "Not seen any more"}</b> {name(0)}{" "}
          <span className="quiet">{plural(count, "request")}</span>
        </>
      );
    case "new-call":
    case "gone-call":
      return (
        <>
          <b>{kind === "new-call" ? "New call" : "No longer called"}</b> {name(0)} → {name(1)}{" "}
          <span className="quiet">{plural(count, "call")}</span>
        </>
      );
  }
}
