import { nano, nanoBetween } from "./duration";
import { certainty } from "./evidence";
import { outcome } from "./outcome";
import type { Span, TracePage } from "../api/types";

/** A trace with its indexes. */
export interface Tree {
  trace: TracePage;
  spans: ReadonlyMap<string, Span>;
  /** Offsets in nanoseconds from the trace's start. */
  start: ReadonlyMap<string, number>;
  /** Spans without a parent, or whose parent is not loaded, in the order of the page. */
  tops: readonly string[];
  /** Nanoseconds from the earliest start to the latest end. */
  length: number;
  /** Whether times are corrected, as if the clocks of all hosts agreed. */
  aligned: boolean;
}

/** One line of the waterfall. */
export interface Row {
  span: Span;
  /** The server's side of the call, if both sides share the line. */
  server: Span | null;
  /** Time of the call that the server's side does not cover. */
  networkNano: number;
  /** The index of the parent's line; -1 for a root. */
  parent: number;
  level: number;
  /** Whether this is the last sibling. */
  last: boolean;
  children: number;
  closed: boolean;
  /** Whether the line itself matches the filter, rather than only one of its descendants. */
  matched: boolean;
  link: "root" | "certain" | "guess";
  /** The siblings of the same name that this line stands for, itself included, if they are folded. */
  repeated: Repeated | null;
}

export interface Repeated {
  count: number;
  totalNano: number;
}

export interface View {
  closed: ReadonlySet<string>;
  merge: boolean;
  filter: string;
  /** Whether siblings of the same name share a line. */
  fold?: boolean;
}

/** Times as reported, or, if `aligned`, corrected as if the clocks of all hosts agreed. */
export function index(trace: TracePage, aligned = false): Tree {
  const spans = new Map<string, Span>();
  const start = new Map<string, number>();
  const ahead = aligned ? clocksAhead(trace) : null;
  let length = aligned ? 0 : nano(trace.duration_nano);
  let first = aligned ? Infinity : 0;
  for (const span of trace.spans) {
    spans.set(span.span_id, span);
    const offset =
      nanoBetween(trace.start_unix_nano, span.start_unix_nano) - (ahead?.get(span.host ?? "") ?? 0);
    start.set(span.span_id, offset);
    // A span in 1970 or in the next century does not count for the time axis.
    if (!isElsewhere(span)) {
      length = Math.max(length, offset + nano(span.duration_nano));
      first = Math.min(first, offset);
    }
  }
  if (aligned && Number.isFinite(first)) {
    for (const [id, offset] of start) start.set(id, offset - first);
    length -= first;
  }
  const tops = trace.spans
    .filter((span) => span.parent === null || !spans.has(span.parent))
    .map((span) => span.span_id);
  return { trace, spans, start, tops, length: Math.max(length, 1), aligned };
}

/** Nanoseconds by which each host's clock is ahead of the clock of the trace's first span. */
export function clocksAhead(trace: TracePage): Map<string, number> {
  const origin = trace.clocks[0]?.reference;
  const reference = trace.spans.find((span) => span.host !== undefined)?.host ?? origin;
  const ahead = new Map<string, number>();
  const waiting = reference === undefined ? [] : [reference];
  if (reference !== undefined) ahead.set(reference, 0);
  for (let host = waiting.pop(); host !== undefined; host = waiting.pop()) {
    for (const clock of trace.clocks) {
      const [other, sign] =
        clock.reference === host
          ? [clock.host, 1]
          : clock.host === host
            ? [clock.reference, -1]
            : [];
      if (other === undefined || sign === undefined || ahead.has(other)) continue;
      ahead.set(other, ahead.get(host)! + sign * nano(clock.ahead_nano));
      waiting.push(other);
    }
  }
  return ahead;
}

/** Whether the span's clock was so wrong that its times are meaningless. */
export function isElsewhere(span: Span): boolean {
  const mark = span.attributes?.find((one) => one.key === "spanwise.clock")?.value;
  return mark === "past" || mark === "future";
}

/**
 * The server's span to draw on the client's line: the only child that is certainly the other
 * side of this call.
 */
export function otherSide(tree: Tree, span: Span): Span | null {
  if (span.capture !== "client-process") return null;
  let found: Span | null = null;
  for (const id of span.children) {
    const child = tree.spans.get(id);
    if (child?.capture !== "server-process" || child.evidence !== "tcp_sequence") continue;
    if (found) return null;
    found = child;
  }
  return found;
}

/** The text that a filter searches: everything that the line shows, and the attributes. */
export function matches(span: Span, filter: string): boolean {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const ended = outcome(span);
  const attributes = (span.attributes ?? []).map((one) => `${one.key}=${String(one.value)}`);
  const text = [
    span.service,
    span.operation,
    span.protocol,
    span.capture,
    span.error,
    span.status_code,
    ended.failed ? "status:error" : "",
    ended.unknown ? "status:unknown" : "",
    span.evidence,
    span.span_id,
    ...attributes,
  ]
    .join("\n")
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

/** The lines to show, in order. Iterative, because a trace may be 10,000 levels deep. */
export function rows(tree: Tree, view: View): Row[] {
  const kept = view.filter.trim() === "" ? null : keep(tree, view.filter);
  const result: Row[] = [];
  const repeats = new Map<string, Repeated>();
  // A filter looks for single spans.
  const fold = view.fold === true && kept === null;
  const stack: { span: Span; parent: number; level: number; last: boolean }[] = [];
  /** Without `level`, each span has its level in the whole tree. */
  const push = (ids: readonly string[], parent: number, level?: number) => {
    const all = ids
      .map((id) => tree.spans.get(id))
      .filter((span): span is Span => span !== undefined && (!kept || kept.has(span.span_id)));
    const shown = fold ? folded(all, repeats) : all;
    for (let at = shown.length - 1; at >= 0; at--) {
      const span = shown[at]!;
      const next = shown[at + 1];
      // The first spans of a page may be on several levels.
      const last = !next || (level === undefined && next.depth !== span.depth);
      stack.push({ span, parent, level: level ?? span.depth, last });
    }
  };
  push(tree.tops, -1);
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { span } = next;
    const server = view.merge ? otherSide(tree, span) : null;
    const below = server
      ? span.children.flatMap((id) => (id === server.span_id ? server.children : [id]))
      : span.children;
    const children = kept ? below.filter((id) => kept.has(id)).length : below.length;
    const closed = children > 0 && view.closed.has(span.span_id);
    result.push({
      span,
      server,
      networkNano: server ? Math.max(0, nano(span.duration_nano) - nano(server.duration_nano)) : 0,
      parent: next.parent,
      level: next.level,
      last: next.last,
      children,
      closed,
      matched:
        !kept || matches(span, view.filter) || (server !== null && matches(server, view.filter)),
      link: span.parent === null ? "root" : certainty(span) === "certain" ? "certain" : "guess",
      repeated: repeats.get(span.span_id) ?? null,
    });
    if (!closed) push(below, result.length - 1, next.level + 1);
  }
  return result;
}

/** Fewer siblings of one name than this are not folded. */
const REPEATED = 3;

/** The siblings without the repetitions. A span that failed keeps its line. */
function folded(siblings: readonly Span[], repeats: Map<string, Repeated>): Span[] {
  if (siblings.length < REPEATED) return [...siblings];
  const groups = new Map<string, Span[]>();
  for (const span of siblings) {
    if (outcome(span).failed) continue;
    const name = `${span.service}\n${span.operation}\n${span.kind}`;
    const group = groups.get(name);
    if (group) group.push(span);
    else groups.set(name, [span]);
  }
  const hidden = new Set<Span>();
  for (const group of groups.values()) {
    if (group.length < REPEATED) continue;
    const totalNano = group.reduce((sum, span) => sum + nano(span.duration_nano), 0);
    repeats.set(group[0]!.span_id, { count: group.length, totalNano });
    for (const span of group.slice(1)) hidden.add(span);
  }
  return siblings.filter((span) => !hidden.has(span));
}

/** Spans at this level or deeper that have children: collapsed, they leave `levels` levels. */
export function deeperThan(tree: Tree, levels: number): Set<string> {
  return new Set(
    tree.trace.spans
      .filter((span) => span.children.length > 0 && span.depth >= levels - 1)
      .map((span) => span.span_id),
  );
}

/** Spans that match the filter, and all their ancestors. */
function keep(tree: Tree, filter: string): Set<string> {
  const kept = new Set<string>();
  for (const span of tree.trace.spans) {
    if (!matches(span, filter)) continue;
    for (
      let at: Span | undefined = span;
      at && !kept.has(at.span_id);
      at = at.parent === null ? undefined : tree.spans.get(at.parent)
    ) {
      kept.add(at.span_id);
    }
  }
  return kept;
}

/** Every span that has children. */
export function branches(tree: Tree): Set<string> {
  return new Set(
    tree.trace.spans.filter((span) => span.children.length > 0).map((span) => span.span_id),
  );
}

/** The ancestors of a span, the nearest first. */
export function ancestors(tree: Tree, id: string): string[] {
  const result: string[] = [];
  const seen = new Set([id]);
  let at = tree.spans.get(id)?.parent ?? null;
  while (at !== null && !seen.has(at)) {
    seen.add(at);
    result.push(at);
    at = tree.spans.get(at)?.parent ?? null;
  }
  return result;
}

/** Whether a span of the line failed, on either side. */
export const failedRow = ({ span, server }: Row): boolean =>
  outcome(span).failed || (server !== null && outcome(server).failed);

/** The number of spans whose link to their parent, or lack of a parent, is not certain. */
export function uncertain(trace: TracePage): number {
  return trace.spans.filter(
    (span) =>
      span.evidence === "ambiguous" || (span.parent !== null && certainty(span) === "guess"),
  ).length;
}
