import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { isWhole } from "../../api/pages";
import type { TracePage } from "../../api/types";
import { setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { criticalPath } from "../../model/criticalPath";
import type { Segment } from "../../model/criticalPath";
import {
  ancestors,
  branches,
  deeperThan,
  failedRow,
  index,
  rows as flatten,
} from "../../model/tree";
import { Blank } from "../../parts/Blank";
import { Compare } from "./Compare";
import { Details } from "./Details";
import { Flame } from "./Flame";
import { HopView } from "./HopView";
import { Minimap } from "./Minimap";
import { OperationTable } from "./OperationTable";
import { PathView } from "./PathView";
import { Progress } from "./More";
import type { More } from "./More";
import {
  closedText,
  readShown,
  select,
  setFilter,
  setFold,
  setMerge,
  setPath,
  setView,
  VIEWS,
} from "./state";
import { TraceHead } from "./TraceHead";
import { TraceTools } from "./TraceTools";
import { TreeMap } from "./TreeMap";
import { Views } from "./Views";
import { Waterfall } from "./Waterfall";
import { panned, zoomedBy } from "./zoom";

/** A filter loads up to this many spans by itself. It then asks. */
const MOST_FILTERED = 100_000;

export function ShownTrace(props: {
  trace: TracePage;
  asked: string;
  more: More;
  missing: string | null;
  /** Whether the trace is from a file: then the server has nothing to download. */
  local?: boolean;
  onSeek: (span: string) => void;
}) {
  const { trace, more } = props;
  const { params, entry } = usePlace();
  const shown = useMemo(() => readShown(params), [params]);
  const tree = useMemo(() => index(trace, shown.aligned), [trace, shown.aligned]);
  const find = useRef<HTMLInputElement>(null);
  // The collapsed spans. The address has them too, as far as they fit.
  const [closed, setClosed] = useState(shown.closed);
  const filter = useDeferredValue(shown.filter);
  const rows = useMemo(
    () => flatten(tree, { closed, merge: shown.merge, filter, fold: shown.fold }),
    [tree, closed, shown.merge, filter, shown.fold],
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
  // If the address has a span's id instead of a trace's, that span is selected.
  const selected = shown.selected ?? (tree.spans.has(props.asked) ? props.asked : null);
  const at = rows.findIndex(
    (row) => row.span.span_id === selected || row.server?.span_id === selected,
  );
  const move = (by: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    if (row) select(row.span.span_id);
  };
  /** Shows a span, even if it is not loaded or an ancestor is collapsed. */
  const reveal = (id: string) => {
    const above = ancestors(tree, id).filter((one) => closed.has(one));
    if (above.length > 0) close(new Set([...closed].filter((one) => !above.includes(one))));
    if (!tree.spans.has(id)) props.onSeek(id);
    select(id);
  };
  const drawn = shown.path || shown.view === "path";
  const segments = useMemo(() => (drawn ? criticalPath(tree) : []), [drawn, tree]);
  const path = useMemo(() => (shown.path ? bySpan(segments) : null), [shown.path, segments]);
  const found = (by: 1 | -1) => {
    const matching = rows.flatMap((row, index) => (row.matched ? [index] : []));
    const to =
      by === 1
        ? (matching.find((index) => index > at) ?? matching[0])
        : (matching.findLast((index) => index < at) ?? matching.at(-1));
    if (to !== undefined) select(rows[to]!.span.span_id);
  };
  const page = (by: number) => {
    const box = document.querySelector("[data-testid=tree], .trace-view");
    box?.scrollBy({ top: by * box.clientHeight * 0.8 });
  };
  const levels = (by: number) => {
    const open = rows.reduce((most, row) => Math.max(most, row.level + 1), 1);
    close(deeperThan(tree, Math.max(1, open + by)));
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
    r: () => setFold(!shown.fold),
    c: () => setPath(!shown.path),
    n: () => found(1),
    N: () => found(-1),
    v: () => setView(VIEWS[(VIEWS.indexOf(shown.view) + 1) % VIEWS.length]!),
    s: () => page(1),
    w: () => page(-1),
    a: () => panned(shown.zoom, -0.1),
    d: () => panned(shown.zoom, 0.1),
    A: () => panned(shown.zoom, -0.5),
    D: () => panned(shown.zoom, 0.5),
    "+": () => zoomedBy(shown.zoom, 0.7),
    "-": () => zoomedBy(shown.zoom, 1 / 0.7),
    p: () => levels(1),
    o: () => levels(-1),
    e: () => {
      const found = rows.slice(at + 1).find(failedRow) ?? rows.find(failedRow);
      if (found) select(found.span.span_id);
      // No loaded span failed, but others did: the filter loads the rest.
      else if (trace.error_count > 0) setFilter("status:error");
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
  // A filter over only some of the spans would be misleading.
  const filtering = filter.trim() !== "";
  const stopped = filtering && trace.spans.length >= MOST_FILTERED;
  const { after, before, busy, failed } = more;
  // Spans below a collapsed line add no lines. Loading all of them would change nothing on the
  // screen.
  const [tried, setTried] = useState(-1);
  const stalled = !busy && !filtering && tried === rows.length;
  const further = () => {
    setTried(rows.length);
    (after ?? before)?.();
  };
  useEffect(() => {
    if (filtering && !stopped && !busy && !failed) (after ?? before)?.();
  }, [filtering, stopped, busy, failed, trace.spans.length]);
  return (
    <main
      className={`trace${span ? " detailed" : ""}`}
      data-testid="trace"
      data-trace-id={trace.trace_id}
    >
      <TraceHead
        tree={tree}
        filter={shown.filter}
        missing={props.missing}
        local={props.local === true}
      />
      <div className="waterfall">
        <Views view={shown.view} whole={isWhole(trace)} />
        {shown.view === "flame" ? (
          <Flame tree={tree} />
        ) : shown.view === "operations" ? (
          <OperationTable tree={tree} />
        ) : shown.view === "path" ? (
          <PathView tree={tree} segments={segments} />
        ) : shown.view === "map" ? (
          <TreeMap tree={tree} />
        ) : shown.view === "hops" ? (
          <HopView tree={tree} />
        ) : shown.view === "compare" ? (
          <Compare tree={tree} other={shown.other} />
        ) : (
          <>
            <TraceTools
              trace={trace}
              shown={shown}
              found={rows.filter((row) => row.matched).length}
              findRef={find}
              onOpenAll={() => close(new Set())}
              onCloseAll={() => close(branches(tree))}
              onDepth={(levels) => close(deeperThan(tree, levels))}
              onFound={found}
            />
            <Minimap tree={tree} zoom={shown.zoom} />
            {rows.length === 0 ? (
              <Blank
                title={
                  isWhole(trace) ? "No span fits the filter" : "No span so far fits the filter"
                }
                busy={busy}
              >
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
                path={path}
                visit={entry}
                more={more}
                onEnd={() => tried !== rows.length && further()}
                onSelect={select}
                onToggle={toggle}
              />
            )}
          </>
        )}
        {!isWhole(trace) && (
          <Progress
            trace={trace}
            more={more}
            stopped={stopped || stalled || shown.view !== "waterfall"}
            onGo={further}
          />
        )}
      </div>
      {span && <Details tree={tree} span={span} onSelect={reveal} />}
    </main>
  );
}

function bySpan(segments: readonly Segment[]): Map<string, Segment[]> {
  const result = new Map<string, Segment[]>();
  for (const segment of segments) {
    const list = result.get(segment.id);
    if (list) list.push(segment);
    else result.set(segment.id, [segment]);
  }
  return result;
}
