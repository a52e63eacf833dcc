/** What kernels saw of the connections of calls: retransmits, opening, round trips. */
import type { EdgeNetwork, GraphEdge, ResentCall } from "../api/types";
import { formatDuration, nano } from "./duration";
import { formatCount, formatShare, plural } from "./number";

/** What is said of calls that no kernel saw. An SDK does not know what TCP does. */
export const UNSEEN = "not seen by the kernel";

/** The network between a service and one that it calls, or that calls it. */
export interface Peer {
  other: string;
  /** Whether the other service makes the calls. */
  calls: boolean;
  protocol: string;
  requests: number;
  /** Null if no kernel saw any of the calls. */
  seen: EdgeNetwork | null;
  /** The share of seen calls of which something was sent again, in each step; null without calls. */
  over: (number | null)[];
  examples: readonly ResentCall[];
}

/** The share of seen calls of which something was sent again; null where nothing was seen. */
export function resentShare(network: EdgeNetwork | null | undefined): number | null {
  return network && network.calls > 0 ? network.resent_calls / network.calls : null;
}

/** The peers of a service, those that lose most first, and those of which nothing is known last. */
export function peers(edges: readonly GraphEdge[], service: string): Peer[] {
  const rank = (peer: Peer) => resentShare(peer.seen) ?? -1;
  return edges
    .filter((edge) => edge.client === service || edge.server === service)
    .map((edge): Peer => {
      const calls = edge.client !== service;
      const seen = edge.network ?? null;
      return {
        other: calls ? edge.client : edge.server,
        calls,
        protocol: edge.protocol,
        requests: edge.requests,
        seen,
        over: (seen?.steps ?? []).map(resentOf),
        examples: seen?.examples ?? [],
      };
    })
    .sort((a, b) => rank(b) - rank(a) || b.requests - a.requests);
}

const resentOf = (step: { calls: number; resent_calls: number }) =>
  step.calls > 0 ? step.resent_calls / step.calls : null;

/** Several edges as one. Percentiles do not add up: the slowest stand for all. */
export function networkTogether(edges: readonly GraphEdge[]): EdgeNetwork | undefined {
  const all = edges.flatMap(({ network }) => (network ? [network] : []));
  if (all.length === 0) return undefined;
  const sum = (field: "calls" | "connects" | "resent_calls" | "retransmits") =>
    all.reduce((total, one) => total + one[field], 0);
  const slowest = (field: "connect_p95_nano" | "rtt_p50_nano") => {
    const values = all.flatMap((one) => (one[field] === undefined ? [] : [one[field]]));
    if (values.length === 0) return {};
    return { [field]: values.reduce((most, one) => (nano(one) > nano(most) ? one : most)) };
  };
  return {
    calls: sum("calls"),
    connects: sum("connects"),
    resent_calls: sum("resent_calls"),
    retransmits: sum("retransmits"),
    ...slowest("connect_p95_nano"),
    ...slowest("rtt_p50_nano"),
  };
}

/** One line for the tip of an edge and its details: `1.2% of calls sent again`. */
export function resentText(network: EdgeNetwork | undefined): string {
  const share = resentShare(network);
  if (share === null) return UNSEEN;
  if (network!.retransmits === 0) return "none";
  return `${formatShare(share)} of calls, ${plural(network!.retransmits, "segment")}`;
}

/** How many of the calls a kernel saw: `240`, or `120 of 240`. */
export function seenText({ seen, requests }: Peer): string {
  if (seen === null) return UNSEEN;
  const all = formatCount(requests);
  return seen.calls < requests ? `${formatCount(seen.calls)} of ${all}` : all;
}

/** A time that may not have been measured. */
export const measuredText = (value: string | undefined): string =>
  value === undefined ? "–" : formatDuration(nano(value));
