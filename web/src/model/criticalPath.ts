/** The critical path: what the trace waited for, at every moment from its start to its end. */
import type { Span } from "../api/types";
import { nano } from "./duration";
import { isElsewhere } from "./tree";
import type { Tree } from "./tree";

/** A part of the path: only a shorter time here would have made the trace shorter. */
export interface Segment {
  id: string;
  /** Nanoseconds from the trace's start. */
  from: number;
  to: number;
}

interface Frame {
  id: string;
  start: number;
  /** Everything after this is on the path already. */
  cursor: number;
  /** Children and their ends, the latest end first. */
  children: { id: string; start: number; end: number }[];
  next: number;
}

/**
 * Goes back from the end of the longest top span. Of the children that had begun before, the one
 * that ended last is what its parent waited for: where a child ran, the parent is not on the path. Children that outlive their parent count until its end.
 */
export function criticalPath(tree: Tree): Segment[] {
  const root = longest(tree);
  if (!root) return [];
  const segments: Segment[] = [];
  const seen = new Set<string>();
  const frame = (span: Span, since: number, until: number): Frame => {
    seen.add(span.span_id);
    const begun = tree.start.get(span.span_id)!;
    const start = Math.max(since, begun);
    const cursor = Math.min(until, begun + nano(span.duration_nano));
    const children = span.children.flatMap((id) => {
      const child = tree.spans.get(id);
      if (!child || seen.has(id) || isElsewhere(child)) return [];
      const from = tree.start.get(id)!;
      const end = Math.min(from + nano(child.duration_nano), cursor);
      return end > start && from < cursor ? [{ id, start: Math.max(from, start), end }] : [];
    });
    children.sort((a, b) => b.end - a.end || a.start - b.start);
    return { id: span.span_id, start, cursor, children, next: 0 };
  };
  const own = (id: string, from: number, to: number) => {
    if (to > from) segments.push({ id, from, to });
  };
  const stack = [frame(root, -Infinity, Infinity)];
  for (let at = stack.at(-1); at; at = stack.at(-1)) {
    const child = at.children[at.next++];
    if (!child) {
      own(at.id, at.start, at.cursor);
      stack.pop();
      continue;
    }
    // It ran only beside siblings that ended later.
    if (child.start >= at.cursor || seen.has(child.id)) continue;
    const end = Math.min(child.end, at.cursor);
    own(at.id, end, at.cursor);
    at.cursor = child.start;
    stack.push(frame(tree.spans.get(child.id)!, child.start, end));
  }
  return segments.sort((a, b) => a.from - b.from);
}

function longest(tree: Tree): Span | undefined {
  let best: Span | undefined;
  for (const id of tree.tops) {
    const span = tree.spans.get(id)!;
    if (isElsewhere(span)) continue;
    if (!best || nano(span.duration_nano) > nano(best.duration_nano)) best = span;
  }
  return best;
}

/** A span's part of the path. */
export interface Step {
  span: Span;
  nano: number;
  segments: Segment[];
}

/** The spans of the path, the longest part first. */
export function pathSteps(tree: Tree, segments: readonly Segment[]): Step[] {
  const steps = new Map<string, Step>();
  for (const segment of segments) {
    const step = steps.get(segment.id);
    if (step) {
      step.nano += segment.to - segment.from;
      step.segments.push(segment);
    } else {
      const span = tree.spans.get(segment.id)!;
      steps.set(segment.id, { span, nano: segment.to - segment.from, segments: [segment] });
    }
  }
  return [...steps.values()].sort((a, b) => b.nano - a.nano);
}
