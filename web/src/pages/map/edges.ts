import type { GraphEdge } from "../../api/types";

/** Names an edge in the address and in the picture. */
export const edgeId = (edge: GraphEdge): string => `${edge.client}→${edge.server}/${edge.protocol}`;
