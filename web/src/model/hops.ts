/** Hops of a trace: the parts of each call, in both processes, their kernels and the network. */
import type { Capture, Span } from "../api/types";
import { formatDuration, nano } from "./duration";
import type { Tree } from "./tree";

export type PartKind =
  "caller-kernel" | "network" | "called-kernel" | "between" | "own" | "calls" | "unseen";

export const PART_NAMES: Record<PartKind, string> = {
  "caller-kernel": "the caller's kernel",
  network: "the network",
  "called-kernel": "the called host's kernel",
  between: "kernels, queues and the network between",
  own: "the called process itself",
  calls: "calls that it made",
  unseen: "the other side, which was not seen",
};

export const PART_ORDER = Object.keys(PART_NAMES) as PartKind[];

export interface Part {
  kind: PartKind;
  nano: number;
  /** Whether it is concluded from the connection's usual round trip, not measured for this call. */
  estimated: boolean;
}

export interface Hop {
  client: Span;
  /** The called process's side; null if it was not seen. */
  server: Span | null;
  totalNano: number;
  /** In the order of time out and back; those of no time are left out. */
  parts: Part[];
  /** What else the kernel saw of the connection. */
  notes: string[];
}

/** The places that a call passes, from the caller to the called. */
const ROAD: readonly Capture[] = ["client-process", "client-nic", "server-nic", "server-process"];

/** The spans of one call at the places that it passes. */
function passed(tree: Tree, client: Span): Map<Capture, Span> {
  const found = new Map<Capture, Span>([[client.capture, client]]);
  let at = client;
  for (;;) {
    const from = ROAD.indexOf(at.capture);
    const next = at.children
      .map((id) => tree.spans.get(id))
      .filter(
        (span): span is Span =>
          span !== undefined &&
          (client.capture === "app"
            ? span.capture === "app" && span.kind === "server"
            : ROAD.indexOf(span.capture) > from && span.evidence === "tcp_sequence"),
      );
    // Of several, none is certainly the other side.
    if (next.length !== 1) return found;
    at = next[0]!;
    if (client.capture === "app") return found.set("server-process", at);
    found.set(at.capture, at);
    if (at.capture === "server-process") return found;
  }
}

/** Whether a hop begins at this span. */
const isCaller = (span: Span): boolean =>
  span.capture === "client-process" || (span.capture === "app" && span.kind === "client");

export function hopAt(tree: Tree, client: Span): Hop | null {
  if (!isCaller(client)) return null;
  const spans = passed(tree, client);
  const time = (capture: Capture): number | null => {
    const span = spans.get(capture);
    return span === undefined ? null : nano(span.duration_nano);
  };
  const server = spans.get("server-process") ?? null;
  const total = nano(client.duration_nano);
  const parts: Part[] = [];
  const add = (kind: PartKind, length: number, estimated = false) => {
    if (length > 0) parts.push({ kind, nano: length, estimated });
  };
  // No part is longer than what is left: a called side that goes on after its answer counts up to
  // the end of the call.
  let left = total;
  const take = (inner: number): number => {
    const outside = Math.max(0, left - inner);
    left = Math.min(left, inner);
    return outside;
  };
  const [near, far, end] = [time("client-nic"), time("server-nic"), time("server-process")];
  // Without a point in between, kernels and the network cannot be told apart.
  const gap = (kind: PartKind, inner: number) => {
    const outside = take(inner);
    const roundTrip = Math.min(outside, nano(client.rtt_nano));
    if (kind !== "between" || roundTrip === 0) return add(kind, outside);
    add("network", roundTrip, true);
    add("between", outside - roundTrip, true);
  };
  if (near !== null) gap("caller-kernel", near);
  if (far !== null) gap(near === null ? "between" : "network", far);
  if (end !== null) gap(far !== null ? "called-kernel" : "between", end);
  if (server === null) {
    const roundTrip = near === null && far === null ? Math.min(left, nano(client.rtt_nano)) : 0;
    add("network", roundTrip, true);
    add("unseen", left - roundTrip);
  } else {
    const own = Math.min(left, ownNano(tree, server));
    add("own", own);
    add("calls", left - own);
  }
  return { client, server, totalNano: total, parts, notes: notesOf(client, server) };
}

/** The time of a process that no call of its own covers: what runs inside it is its own. */
function ownNano(tree: Tree, server: Span): number {
  let sum = 0;
  const waiting = [server];
  for (let at = waiting.pop(); at; at = waiting.pop()) {
    sum += nano(at.self_nano);
    for (const id of at.children) {
      const child = tree.spans.get(id);
      const isInside = child?.service === server.service && !isCaller(child);
      if (isInside) waiting.push(child);
    }
  }
  return sum;
}

function notesOf(client: Span, server: Span | null): string[] {
  const notes: string[] = [];
  const seen = [client, server].filter((span): span is Span => span !== null);
  const most = (field: "retransmits" | "zero_windows" | "resets") =>
    Math.max(0, ...seen.map((span) => span[field] ?? 0));
  if (client.connect_nano !== undefined) {
    notes.push(`opening its connection took ${formatDuration(nano(client.connect_nano))}`);
  }
  if (most("retransmits") > 0) notes.push(`data was sent again ${times(most("retransmits"))}`);
  if (most("zero_windows") > 0) {
    notes.push(`a receiver had no room for more ${times(most("zero_windows"))}`);
  }
  if (most("resets") > 0) notes.push("the connection was reset");
  const after = server === null ? 0 : nano(server.duration_nano) - nano(client.duration_nano);
  if (after > 0) notes.push(`the called side went on for ${formatDuration(after)}`);
  return notes;
}

const times = (count: number): string => (count === 1 ? "once" : `${count} times`);

/** All hops of the loaded spans, in their order. */
export function hops(tree: Tree): Hop[] {
  return tree.trace.spans.flatMap((span) => {
    // If an SDK and the kernel both saw a call, the kernel's span is the nearer one.
    const isAround = span.children.some((id) => {
      const child = tree.spans.get(id);
      return child !== undefined && isCaller(child) && child.service === span.service;
    });
    const hop = isAround ? null : hopAt(tree, span);
    return hop === null ? [] : [hop];
  });
}

/** The parts in words, the longest first. */
export function inWords(hop: Hop): string {
  const said = [...hop.parts]
    .sort((a, b) => b.nano - a.nano)
    .map(
      (part) =>
        `${part.estimated ? "about " : ""}${formatDuration(part.nano)} in ${PART_NAMES[part.kind]}`,
    );
  const sentence = said.length === 0 ? "No time" : said.join(", ");
  return hop.notes.length === 0 ? `${sentence}.` : `${sentence}; ${hop.notes.join("; ")}.`;
}
