import { useCallback, useDeferredValue, useMemo, useRef, useState } from "react";
import { ApiError } from "../../api/client";
import { useTrace } from "../../api/queries";
import type { Trace } from "../../api/types";
import { introduce } from "../../app/palette";
import { Link, setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { formatCount, plural } from "../../model/number";
import { ancestors, branches, index, rows as flatten } from "../../model/tree";
import { Blank, Failure } from "../../parts/Blank";
import { CaptureTag } from "../../parts/CaptureTag";
import { Prose } from "../../parts/Prose";
import { Details } from "./Details";
import { Minimap } from "./Minimap";
import { closedText, readShown, select, setAligned, setFilter, setMerge } from "./state";
import { TraceHead } from "./TraceHead";
import { Waterfall } from "./Waterfall";

export function TracePage({ id }: { id: string }) {
  const trace = useTrace(id);
  if (trace.isError && !trace.data) {
    const missing = trace.error instanceof ApiError && trace.error.status === 404;
    return (
      <main className="page">
        <Blank title={missing ? "No such trace" : "This trace cannot be shown"}>
          {missing ? (
            <p>
              <Prose text={trace.error.message} />
            </p>
          ) : (
            <Failure error={trace.error} />
          )}
          <div style={{ display: "flex", gap: 8 }}>
            <button className="button" onClick={() => void trace.refetch()}>
              Try again
            </button>
            <Link className="button" to="/">
              Search
            </Link>
          </div>
        </Blank>
      </main>
    );
  }
  if (!trace.data) return <Blank title="Loading the trace" busy />;
  const more = {
    busy: trace.isFetchingNextPage,
    failed: trace.isFetchNextPageError,
    load: () => void trace.fetchNextPage(),
  };
  return <Shown trace={trace.data} asked={id} more={more} />;
}

/** How to get the spans that are not here yet. */
interface More {
  busy: boolean;
  failed: boolean;
  load: () => void;
}

function Shown({ trace, asked, more }: { trace: Trace; asked: string; more: More }) {
  introduce(trace.services.map((service) => service.name));
  const { params } = usePlace();
  const shown = useMemo(() => readShown(params), [params]);
  const tree = useMemo(() => index(trace, shown.aligned), [trace, shown.aligned]);
  const find = useRef<HTMLInputElement>(null);
  // Collapsed spans live here; the address has them too, as far as it can hold them.
  const [closed, setClosed] = useState(shown.closed);
  const filter = useDeferredValue(shown.filter);
  const rows = useMemo(
    () => flatten(tree, { closed, merge: shown.merge, filter }),
    [tree, closed, shown.merge, filter],
  );
  const close = useCallback((next: ReadonlySet<string>) => {
    setClosed(next);
    setParams({ closed: closedText(next) });
  }, []);
  const toggle = useCallback(
    (id: string) => {
      const next = new Set(closed);
      if (!next.delete(id)) next.add(id);
      close(next);
    },
    [closed, close],
  );
  // A page opened by the id of a span shows that span.
  const selected = shown.selected ?? (tree.spans.has(asked) ? asked : null);
  const at = rows.findIndex(
    (row) => row.span.span_id === selected || row.server?.span_id === selected,
  );
  const move = (by: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    if (row) select(row.span.span_id);
  };
  /** Shows a span although something above it is collapsed or filtered out. */
  const reveal = (id: string) => {
    const above = ancestors(tree, id).filter((one) => closed.has(one));
    if (above.length > 0) close(new Set([...closed].filter((one) => !above.includes(one))));
    select(id);
  };
  const current = rows[at];
  const next = () => move(1);
  const previous = () => move(at < 0 ? 1 : -1);
  useShortcuts({
    "/": () => find.current?.focus(),
    j: next,
    f: next,
    ArrowDown: next,
    k: previous,
    b: previous,
    ArrowUp: previous,
    Enter: () => current && select(current.span.span_id),
    Escape: () => select(null),
    "[": () => close(branches(tree)),
    "]": () => close(new Set()),
    m: () => setMerge(!shown.merge),
    e: () => {
      const failed = (row: (typeof rows)[number]) =>
        row.span.status === "error" || row.server?.status === "error";
      const found = rows.slice(at + 1).find(failed) ?? rows.find(failed);
      if (found) select(found.span.span_id);
    },
    ArrowLeft: () => {
      if (!current) return;
      if (current.children > 0 && !current.closed) toggle(current.span.span_id);
      else if (current.parent >= 0) select(rows[current.parent]!.span.span_id);
    },
    ArrowRight: () => {
      if (!current) return;
      if (current.closed) toggle(current.span.span_id);
      else if (current.children > 0) move(1);
    },
  });
  const span = selected === null ? undefined : tree.spans.get(selected);
  const found = rows.filter((row) => row.matched).length;
  return (
    <main className="trace" data-testid="trace" data-trace-id={trace.trace_id}>
      <TraceHead tree={tree} filter={shown.filter} />
      <div className="waterfall">
        <div className="trace-tools">
          <div className="find">
            <input
              ref={find}
              type="text"
              value={shown.filter}
              onChange={(event) => setFilter(event.target.value)}
              placeholder="Filter spans"
              title="Words of the name, service, error or attributes; status:error"
              aria-label="Filter spans"
              data-testid="filter"
              spellCheck={false}
            />
            {shown.filter !== "" && <span className="label">{plural(found, "span")}</span>}
          </div>
          <button
            type="button"
            className="button"
            title="Collapse all ( [ )"
            onClick={() => close(branches(tree))}
          >
            Collapse
          </button>
          <button
            type="button"
            className="button"
            title="Expand all ( ] )"
            onClick={() => close(new Set())}
          >
            Expand
          </button>
          <button
            type="button"
            className="button"
            aria-pressed={shown.merge}
            data-testid="merge"
            title="One line for both sides of a hop, with the network's time between them (m)"
            onClick={() => setMerge(!shown.merge)}
          >
            Merge hops
          </button>
          {trace.clocks.some((clock) => clock.notable) && (
            <button
              type="button"
              className="button"
              aria-pressed={shown.aligned}
              data-testid="align"
              title="Draw all hosts by the clock of the first, as far as their calls tell how far apart they are"
              onClick={() => setAligned(!shown.aligned)}
            >
              Align clocks
            </button>
          )}
          <div className="legend" aria-hidden="true">
            <span>
              <CaptureTag capture="client-process" /> client
            </span>
            <span>
              <CaptureTag capture="server-process" /> server
            </span>
            <span>
              <CaptureTag capture="app" /> sdk
            </span>
            <span>
              <svg width="22" height="8">
                <path d="M0 4.5h22" stroke="currentColor" />
              </svg>
              certain
            </span>
            <span className="warn-text">
              <svg width="22" height="8">
                <path
                  d="M0 4.5h22"
                  stroke="currentColor"
                  strokeWidth="1.4"
                  strokeDasharray="3 2.5"
                />
              </svg>
              guess
            </span>
          </div>
        </div>
        {trace.next_after !== null && (
          <div className="more-spans" data-testid="more-spans">
            <span>
              The first {formatCount(trace.spans.length)} of {plural(trace.span_count, "span")} are
              here.
            </span>
            <button type="button" className="button" disabled={more.busy} onClick={more.load}>
              {more.busy ? "Loading…" : more.failed ? "Try again" : "Load more"}
            </button>
          </div>
        )}
        <Minimap tree={tree} zoom={shown.zoom} />
        {rows.length === 0 ? (
          <Blank title="No span fits the filter">
            <button className="button" onClick={() => setFilter("")}>
              Clear it
            </button>
          </Blank>
        ) : (
          <Waterfall
            tree={tree}
            rows={rows}
            zoom={shown.zoom}
            selected={selected}
            onSelect={select}
            onToggle={toggle}
          />
        )}
      </div>
      {span && <Details tree={tree} span={span} onSelect={reveal} />}
    </main>
  );
}
