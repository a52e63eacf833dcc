/** What the colour of a call on the map says. */
import type { GraphEdge } from "../../api/types";
import { nano } from "../../model/duration";
import { resentShare } from "../../model/network";
import { formatShare } from "../../model/number";

export const COLOURINGS = ["errors", "latency", "retransmits"] as const;
export type Colouring = (typeof COLOURINGS)[number];

export const COLOURING_NAMES: Record<Colouring, string> = {
  errors: "Colour: errors",
  latency: "Colour: latency",
  retransmits: "Colour: retransmits",
};

/** In words, below the map's tools. */
export const LEGENDS: Record<Colouring, string> = {
  errors: "red: errors",
  latency: "stronger: slower, by p95",
  retransmits: "red: retransmits; pale: not seen by the kernel",
};

/** The colour of a line: plain, pale where nothing is known, or a share of a signal colour. */
export type Hue = "plain" | "pale" | { tone: "error" | "warn"; share: number };

/** Even a little must be seen. */
const alarming = (share: number): Hue =>
  share > 0 ? { tone: "error", share: 0.45 + 0.55 * Math.min(1, share * 12) } : "plain";

/** Below this share of the range of latencies a line stays plain. */
const LEAST_SLOW = 0.3;

/** The colour of each of these calls. Latencies are compared with one another. */
export function hues(edges: readonly GraphEdge[], colouring: Colouring): (edge: GraphEdge) => Hue {
  switch (colouring) {
    case "errors":
      return (edge) => alarming(edge.error_share);
    case "retransmits":
      return (edge) => {
        const share = resentShare(edge.network);
        return share === null ? "pale" : alarming(share);
      };
    case "latency": {
      // Latencies of a system are spread over powers of ten.
      const size = (edge: GraphEdge) => Math.log10(Math.max(1e3, nano(edge.p95_nano)));
      const [least, most] = edges.reduce(
        ([low, high], edge) => [Math.min(low, size(edge)), Math.max(high, size(edge))] as const,
        [Infinity, -Infinity] as const,
      );
      return (edge) => {
        const share = most > least ? (size(edge) - least) / (most - least) : 0;
        return share < LEAST_SLOW ? "plain" : { tone: "warn", share };
      };
    }
  }
}

/** What a line says in red beside its rate. */
export function alarmOf(edge: GraphEdge, colouring: Colouring): string {
  if (colouring !== "retransmits") {
    return edge.errors > 0 ? `${formatShare(edge.error_share)} err` : "";
  }
  const share = resentShare(edge.network);
  return share === null || share === 0 ? "" : `${formatShare(share)} resent`;
}
