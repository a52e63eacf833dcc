/** Spans that fit a query, asked for again and again. */
import { useEffect, useState } from "react";
import { nano } from "../model/duration";
import { EMPTY_TAIL, extended, toldBy } from "../model/live";
import type { LiveSpan, Tail } from "../model/live";
import { label, tempo } from "./tempo";
import type { TempoSearch } from "./tempo";

const EVERY_MILLISECONDS = 2_000;
/** Spans arrive late, and are assembled about half a second after that. */
const LOOK_BACK_SECONDS = 15;
/** The first answer shows what has just been. */
const FIRST_LOOK_BACK_SECONDS = 60;
const MOST_TRACES = 200;
/** The most that the API tells of a trace. */
const MOST_OF_A_TRACE = 100;

export interface Live {
  tail: Tail;
  error: Error | null;
  /** Whether an answer has come. */
  asked: boolean;
  /** Whether more spans fitted an answer than it could hold. */
  overflowed: boolean;
}

const NOTHING: Live = { tail: EMPTY_TAIL, error: null, asked: false, overflowed: false };

/** The spans of an answer, and whether it leaves some out. */
export function spansOf(body: TempoSearch): { spans: LiveSpan[]; overflowed: boolean } {
  const traces = body.traces ?? [];
  let overflowed = traces.length >= MOST_TRACES;
  const spans = traces.flatMap((trace) =>
    (trace.spanSets ?? []).flatMap((set) => {
      const listed = set.spans ?? [];
      overflowed ||= (set.matched ?? listed.length) > listed.length;
      return listed.map((span): LiveSpan => ({
        traceId: trace.traceID.padStart(32, "0"),
        spanId: span.spanID.padStart(16, "0"),
        service: label(span.attributes, "service.name"),
        operation: span.name ?? "",
        kind: label(span.attributes, "kind"),
        failed: label(span.attributes, "status") === "error",
        startUnixNano: span.startTimeUnixNano ?? "0",
        durationNano: nano(span.durationNanos),
      }));
    }),
  );
  return { spans, overflowed };
}

/** Follows a query until it is paused. While the tab is hidden, nothing is asked. */
export function useLive(query: string, paused: boolean): Live {
  const [live, setLive] = useState(NOTHING);
  useEffect(() => setLive(NOTHING), [query]);
  useEffect(() => {
    if (paused) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let lookBack = FIRST_LOOK_BACK_SECONDS;
    const ask = async () => {
      if (!document.hidden) {
        const now = Math.floor(Date.now() / 1000);
        const parameters = {
          q: toldBy(query),
          start: now - lookBack,
          end: now + 2,
          limit: MOST_TRACES,
          spss: MOST_OF_A_TRACE,
        };
        try {
          const { body } = await tempo<TempoSearch>("search", parameters, stop.signal);
          const { spans, overflowed } = spansOf(body);
          lookBack = LOOK_BACK_SECONDS;
          setLive((before) => ({
            tail: extended(before.tail, spans),
            error: null,
            asked: true,
            overflowed: before.overflowed || overflowed,
          }));
        } catch (error) {
          if (stop.signal.aborted) return;
          const said = error instanceof Error ? error : new Error(String(error));
          setLive((before) => ({ ...before, error: said, asked: true }));
        }
      }
      if (!stop.signal.aborted) timer = setTimeout(() => void ask(), EVERY_MILLISECONDS);
    };
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [query, paused]);
  return live;
}
