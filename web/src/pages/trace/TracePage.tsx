import { useEffect, useState } from "react";
import { ApiError } from "../../api/client";
import { isWhole } from "../../api/pages";
import { useTrace } from "../../api/queries";
import { Colours } from "../../app/palette";
import { Link, usePlace } from "../../app/router";
import { useTitle } from "../../app/title";
import { Blank, Failure } from "../../parts/Blank";
import { Prose } from "../../parts/Prose";
import { ShownTrace } from "./ShownTrace";
import type { More } from "./More";

export function TracePage({ id }: { id: string }) {
  const { params } = usePlace();
  const wanted = params.get("span");
  // The span around which pages are loaded; null: from the beginning.
  const [around, setAround] = useState(wanted);
  const [missing, setMissing] = useState<string | null>(null);
  const trace = useTrace(id, around);
  const shown = trace.data;
  const lost =
    around !== null && trace.error instanceof ApiError && trace.error.status === 404
      ? around
      : null;
  // The id of a span opens its trace. A large trace is opened at that span.
  const asked = wanted ?? (id.length === 16 && shown && !shown.trace_id.endsWith(id) ? id : null);
  const elsewhere =
    shown !== undefined &&
    !trace.isPlaceholderData &&
    asked !== null &&
    asked !== around &&
    asked !== missing &&
    !isWhole(shown) &&
    !shown.spans.some((span) => span.span_id === asked);
  useEffect(() => {
    if (lost !== null) {
      setMissing(lost);
      setAround(null);
    } else if (elsewhere) setAround(asked);
  }, [lost, elsewhere, asked]);
  const root = shown?.spans[0];
  useTitle(
    root && shown.first === 0
      ? `${root.service} ${root.operation} — ${shown.trace_id.slice(0, 4)}…`
      : `Trace ${(shown?.trace_id ?? id).slice(0, 4)}…`,
  );
  if (trace.isError && !shown && lost === null) {
    const unknown = trace.error instanceof ApiError && trace.error.status === 404;
    return (
      <main className="page">
        <Blank title={unknown ? "No such trace" : "This trace cannot be shown"} whole>
          {unknown ? (
            <p>
              <Prose text={trace.error.message} />
            </p>
          ) : (
            <Failure error={trace.error} />
          )}
          <div className="choice">
            <button className="button" onClick={() => void trace.refetch()}>
              Try again
            </button>
            <Link className="button" to="/search">
              Search
            </Link>
          </div>
        </Blank>
      </main>
    );
  }
  if (!shown) {
    return (
      <main className="page">
        <Blank title="Loading the trace" busy whole />
      </main>
    );
  }
  const more: More = {
    busy: trace.isFetching,
    failed: trace.isFetchNextPageError || trace.isFetchPreviousPageError,
    after: trace.hasNextPage ? () => void trace.fetchNextPage() : null,
    before: trace.hasPreviousPage ? () => void trace.fetchPreviousPage() : null,
  };
  return (
    <Colours names={shown.services.map((service) => service.name)}>
      <ShownTrace
        trace={shown}
        asked={id}
        more={more}
        missing={missing !== null && missing === asked ? missing : null}
        onSeek={setAround}
      />
    </Colours>
  );
}
