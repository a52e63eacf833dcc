/** Spans as they come: each once, the newest first, and no more of them than can be read. */

export interface LiveSpan {
  traceId: string;
  spanId: string;
  service: string;
  operation: string;
  kind: string;
  failed: boolean;
  startUnixNano: string;
  durationNano: number;
}

export interface Tail {
  /** The newest first. */
  spans: readonly LiveSpan[];
  /** Spans that came. */
  arrived: number;
  /** Of these, how many are no longer listed. */
  dropped: number;
  /** Ids of the latest spans, so that an answer that overlaps another one adds nothing. */
  known: ReadonlySet<string>;
}

export const EMPTY_TAIL: Tail = { spans: [], arrived: 0, dropped: 0, known: new Set() };

/** Spans that are listed. */
export const MOST_SPANS = 500;
/** Ids that are remembered: those of some answers. */
export const MOST_KNOWN = 20_000;

const newestFirst = (a: LiveSpan, b: LiveSpan): number => {
  const [one, other] = [BigInt(a.startUnixNano), BigInt(b.startUnixNano)];
  return one === other ? (a.spanId < b.spanId ? -1 : 1) : one > other ? -1 : 1;
};

/** The tail with what is new in an answer. If nothing is, it is the same object. */
export function extended(tail: Tail, answer: readonly LiveSpan[]): Tail {
  const known = new Set(tail.known);
  const fresh: LiveSpan[] = [];
  for (const span of answer) {
    const id = `${span.traceId} ${span.spanId}`;
    if (known.has(id)) continue;
    known.add(id);
    fresh.push(span);
  }
  if (fresh.length === 0) return tail;
  const all = [...fresh, ...tail.spans].sort(newestFirst);
  const spans = all.slice(0, MOST_SPANS);
  return {
    spans,
    arrived: tail.arrived + fresh.length,
    dropped: tail.dropped + all.length - spans.length,
    // A set keeps the order in which ids were added: the oldest are forgotten.
    known: known.size > MOST_KNOWN ? new Set([...known].slice(-MOST_KNOWN / 2)) : known,
  };
}

/** The query with what a line shows of each span. */
export const toldBy = (query: string): string =>
  `${query.trim() === "" ? "{ }" : query} | select(resource.service.name, status, kind)`;
