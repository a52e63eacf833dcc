import { defaultRangeExtractor, useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { CSSProperties } from "react";
import { recalled, remembered } from "../../app/store";
import { found, useScroll } from "../../app/visit";
import { formatDuration, ticks } from "../../model/duration";
import { plural } from "../../model/number";
import type { Row, Tree } from "../../model/tree";
import { usePrinting } from "../../parts/usePrinting";
import { Line, LINE_HEIGHT } from "./Line";
import type { LineProps } from "./Line";
import type { More } from "./More";
import type { Shown } from "./state";

const KEY = "spanwise.tree-width";
/** Indentation of each level in pixels; less if the trace is deep. */
const INDENT = 15;
/** The next page is loaded this many lines before the end. */
const AHEAD = 200;
/** Lines that are printed: about forty pages. */
const MOST_PRINTED = 2000;

export function Waterfall(props: {
  tree: Tree;
  rows: readonly Row[];
  zoom: Shown["zoom"];
  selected: string | null;
  path: LineProps["path"];
  visit: string;
  more: More;
  /** Called near the last line if there are more spans. */
  onEnd: () => void;
  onSelect: (id: string) => void;
  onToggle: (id: string) => void;
}) {
  const { tree, rows, more } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(1000);
  const [share, setShare] = useState(storedShare);
  const narrow = width < 520;
  const treeWidth = Math.round(
    narrow ? width * 0.55 : Math.min(Math.max(share * width, 200), width * 0.75),
  );
  const from = props.zoom[0] * tree.length;
  const to = props.zoom[1] * tree.length;
  const deepest = useMemo(() => rows.reduce((most, row) => Math.max(most, row.level), 1), [rows]);
  const indent = Math.max(1, Math.min(INDENT, (treeWidth * (narrow ? 0.25 : 0.5)) / deepest));
  const marks = ticks(from, to, Math.max(2, Math.floor((width - treeWidth) / 110)));
  const place = (mark: number) => `${((mark - from) / (to - from)) * 100}%`;

  const printing = usePrinting();
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
    // Paper does not scroll: all lines are there, as far as that is sensible.
    rangeExtractor: (range) =>
      printing
        ? Array.from({ length: Math.min(range.count, MOST_PRINTED) }, (_, line) => line)
        : defaultRangeExtractor(range),
  });
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry!.contentRect.width));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useScroll(box, props.visit, "waterfall", true);
  const { selected } = props;
  const at = useMemo(
    () =>
      rows.findIndex((row) => row.span.span_id === selected || row.server?.span_id === selected),
    [rows, selected],
  );
  // After Back, the waterfall is scrolled as it was left. Otherwise it scrolls to the requested
  // span.
  const restored = useRef(found(props.visit, "waterfall") !== undefined);
  useEffect(() => {
    if (restored.current) restored.current = false;
    else if (at >= 0) virtual.scrollToIndex(at, { align: "auto" });
    // Runs only when the selection changes or is loaded, not whenever lines move.
  }, [selected, at >= 0]);

  // Lines that are inserted above do not move the visible ones.
  const top = useRef(rows[0]?.span.span_id);
  useLayoutEffect(() => {
    const before = rows.findIndex((row) => row.span.span_id === top.current);
    if (before > 0) box.current!.scrollTop += before * LINE_HEIGHT;
    top.current = rows[0]?.span.span_id;
  }, [rows]);
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const ends = more.after !== null && last >= rows.length - AHEAD && !more.busy && !more.failed;
  useEffect(() => {
    if (ends) props.onEnd();
  }, [ends, rows.length]);
  const scrolled = () => {
    if (box.current!.scrollTop < AHEAD * LINE_HEIGHT && !more.busy && !more.failed) more.before?.();
  };

  const chooseShare = (next: number) => {
    const bounded = Math.min(0.75, Math.max(0.2, next));
    setShare(bounded);
    remembered(KEY, String(bounded));
  };
  return (
    <>
      <div className="ruler" style={{ "--tree": `${treeWidth}px` } as CSSProperties}>
        <div className="head">
          Service and operation
          <div
            className="grip"
            role="separator"
            aria-orientation="vertical"
            aria-label="Width of the tree"
            aria-valuenow={Math.round(share * 100)}
            tabIndex={0}
            onKeyDown={(event) => {
              if (event.key === "ArrowLeft") chooseShare(share - 0.02);
              else if (event.key === "ArrowRight") chooseShare(share + 0.02);
              else return;
              event.stopPropagation();
              event.preventDefault();
            }}
            onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
            onPointerMove={(event) => {
              if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
              chooseShare((event.clientX - box.current!.getBoundingClientRect().left) / width);
            }}
          />
        </div>
        <div className="ticks" aria-hidden="true">
          {marks.map((mark) => (
            <span key={mark} style={{ left: place(mark) }}>
              {formatDuration(mark)}
            </span>
          ))}
        </div>
      </div>
      <div
        className="lines"
        ref={box}
        style={{ "--tree": `${treeWidth}px` } as CSSProperties}
        role="tree"
        aria-label="Spans of the trace"
        aria-activedescendant={
          items.some((item) => item.index === at) ? `span-${rows[at]!.span.span_id}` : undefined
        }
        tabIndex={0}
        onScroll={scrolled}
        data-testid="tree"
        data-focus-home
        data-rows={rows.length}
      >
        <div
          className="rows"
          role="presentation"
          style={{
            height: printing
              ? Math.min(rows.length, MOST_PRINTED) * LINE_HEIGHT
              : virtual.getTotalSize(),
          }}
        >
          <div className="grid" aria-hidden="true">
            {marks.map((mark) => (
              <i key={mark} style={{ left: place(mark) }} />
            ))}
          </div>
          {items.map((item) => {
            const { span, server } = rows[item.index]!;
            return (
              <Line
                key={span.span_id}
                tree={tree}
                rows={rows}
                at={item.index}
                top={item.start}
                indent={indent}
                from={from}
                to={to}
                path={props.path}
                selected={
                  selected !== null && (span.span_id === selected || server?.span_id === selected)
                }
                onSelect={props.onSelect}
                onToggle={props.onToggle}
              />
            );
          })}
        </div>
      </div>
      {printing && rows.length > MOST_PRINTED && (
        <p className="explained">
          {plural(rows.length - MOST_PRINTED, "more line")} not printed: collapse or filter spans to
          print others.
        </p>
      )}
    </>
  );
}

function storedShare(): number {
  const stored = Number(recalled(KEY));
  return stored >= 0.2 && stored <= 0.75 ? stored : 0.42;
}
