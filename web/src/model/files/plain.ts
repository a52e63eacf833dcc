/** A trace from spans of a file, whatever its format: the same tree that the server makes. */
import type {
  Attribute,
  AttributeType,
  Span,
  SpanEvent,
  SpanKind,
  TracePage,
} from "../../api/types";

/** What every format says of a span. */
export interface PlainSpan {
  traceId: string;
  id: string;
  parentId: string | null;
  service: string;
  operation: string;
  kind: SpanKind;
  startNano: bigint;
  durationNano: bigint;
  failed: boolean;
  error?: string;
  attributes: Attribute[];
  events: SpanEvent[];
  resource: Record<string, unknown>;
}

/** A file that is not what it should be, in words for its owner. */
export class FileProblem extends Error {}

/** More spans than this are too many for a page. */
export const MOST_SPANS = 200_000;

export function attribute(key: string, value: unknown): Attribute {
  const type: AttributeType =
    typeof value === "boolean"
      ? "bool"
      : typeof value === "number"
        ? Number.isInteger(value)
          ? "int"
          : "double"
        : typeof value === "string"
          ? "string"
          : "json";
  return { key, type, value };
}

/** The trace with the most spans. Others are named in a warning. */
export function traceOf(all: readonly PlainSpan[], from: string): TracePage {
  if (all.length === 0) throw new FileProblem("The file has no spans.");
  if (all.length > MOST_SPANS) {
    throw new FileProblem(
      `The file has ${all.length} spans; the page shows at most ${MOST_SPANS}. Import it with \`spanwise import\`.`,
    );
  }
  const traces = new Map<string, PlainSpan[]>();
  for (const span of all) {
    const list = traces.get(span.traceId);
    if (list) list.push(span);
    else traces.set(span.traceId, [span]);
  }
  const [id, list] = [...traces].reduce((most, one) =>
    one[1].length > most[1].length ? one : most,
  );
  const warnings = [`This trace is from the file ${from}. It is not stored on the server.`];
  if (traces.size > 1) {
    warnings.push(`The file has ${traces.size} traces; this is the largest of them.`);
  }
  return page(id, list, warnings);
}

const endOf = (span: PlainSpan) => span.startNano + span.durationNano;

function page(id: string, list: readonly PlainSpan[], warnings: string[]): TracePage {
  const spans = new Map<string, PlainSpan>();
  let twice = 0;
  for (const span of list) {
    // Zipkin's two sides of one call share an id: the second becomes a child of the first.
    if (spans.has(span.id)) {
      const other = `${span.id}-${++twice}`;
      spans.set(other, { ...span, id: other, parentId: span.id });
    } else spans.set(span.id, span);
  }
  const children = new Map<string, PlainSpan[]>();
  const roots: PlainSpan[] = [];
  let complete = true;
  for (const span of spans.values()) {
    const known = span.parentId !== null && spans.has(span.parentId) && span.parentId !== span.id;
    if (!known) {
      if (span.parentId !== null) complete = false;
      roots.push(span);
      continue;
    }
    const siblings = children.get(span.parentId!);
    if (siblings) siblings.push(span);
    else children.set(span.parentId!, [span]);
  }
  const byStart = (a: PlainSpan, b: PlainSpan) =>
    a.startNano < b.startNano ? -1 : a.startNano > b.startNano ? 1 : 0;
  const result: Span[] = [];
  const stack = roots
    .sort(byStart)
    .reverse()
    .map((span) => ({ span, parent: null as string | null, depth: 0 }));
  const services = new Map<string, { spans: number; errors: number; busy: bigint }>();
  let deepest = 0;
  for (let at = stack.pop(); at; at = stack.pop()) {
    const { span, parent, depth } = at;
    const below = (children.get(span.id) ?? []).sort(byStart);
    const own = ownTime(span, below);
    deepest = Math.max(deepest, depth + 1);
    result.push(shown(span, parent, depth, below, own));
    const share = services.get(span.service) ?? { spans: 0, errors: 0, busy: 0n };
    share.spans++;
    if (span.failed) share.errors++;
    share.busy += own;
    services.set(span.service, share);
    for (let next = below.length - 1; next >= 0; next--) {
      stack.push({ span: below[next]!, parent: span.id, depth: depth + 1 });
    }
  }
  if (result.length < spans.size) {
    warnings.push(`${spans.size - result.length} spans are left out: their parents form a circle.`);
  }
  if (!complete) warnings.push("The parent of a span is missing in the file.");
  const start = list.reduce(
    (least, one) => (one.startNano < least ? one.startNano : least),
    list[0]!.startNano,
  );
  const end = list.reduce((most, one) => (endOf(one) > most ? endOf(one) : most), 0n);
  return {
    trace_id: id,
    start_unix_nano: String(start),
    duration_nano: String(end - start),
    roots: roots.map((span) => span.id),
    spans: result,
    warnings,
    services: [...services]
      .map(([name, share]) => ({
        name,
        spans: share.spans,
        errors: share.errors,
        busy_nano: String(share.busy),
      }))
      .sort((a, b) => b.spans - a.spans),
    clocks: [],
    span_count: result.length,
    error_count: result.filter((span) => span.status === "error").length,
    depth: deepest,
    complete,
    first: 0,
    next_after: null,
    snapshot: "",
  };
}

/** The time that no child covers. The children are in the order of their starts. */
function ownTime(span: PlainSpan, below: readonly PlainSpan[]): bigint {
  let covered = 0n;
  let at = span.startNano;
  const end = endOf(span);
  for (const child of below) {
    const from = child.startNano > at ? child.startNano : at;
    const to = endOf(child) < end ? endOf(child) : end;
    if (to > from) {
      covered += to - from;
      at = to;
    }
  }
  return span.durationNano - covered;
}

function shown(
  span: PlainSpan,
  parent: string | null,
  depth: number,
  below: readonly PlainSpan[],
  own: bigint,
): Span {
  return {
    span_id: span.id,
    trace_id: span.traceId,
    parent,
    ...(span.parentId !== null && { parent_span_id: span.parentId }),
    ...(parent !== null && { evidence: "span_context" as const, confidence: 1 }),
    capture: "app",
    kind: span.kind,
    service: span.service,
    operation: span.operation,
    status: span.failed ? "error" : "unset",
    ...(span.error !== undefined && span.error !== "" && { error: span.error }),
    start_unix_nano: String(span.startNano),
    duration_nano: String(span.durationNano),
    self_nano: String(own),
    depth,
    children: below.map((child) => child.id),
    attributes: span.attributes,
    events: span.events,
    resource: span.resource,
  };
}
