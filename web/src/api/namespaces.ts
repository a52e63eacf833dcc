/** The namespaces that services say they are in. */
import { useQuery } from "@tanstack/react-query";
import { label, tempo } from "./tempo";
import type { TempoMetrics } from "./tempo";

const SERVICE = "resource.service.name";
/** OpenTelemetry's own, and that of Kubernetes. */
const NAMESPACES = ["resource.service.namespace", "resource.k8s.namespace.name"];
const MOST_SERIES = 5000;
/** Where a service runs is known from a short time: reading a long one costs much. */
const LONGEST_SECONDS = 900;

/** The namespace of each service; the first that is said counts. */
export function namespacesOf(body: TempoMetrics): Map<string, string> {
  const found = new Map<string, string>();
  for (const one of body.series ?? []) {
    const service = label(one.labels, SERVICE);
    const namespace = NAMESPACES.map((name) => label(one.labels, name)).find(
      (text) => text !== "" && text !== "nil",
    );
    if (namespace !== undefined && !found.has(service)) found.set(service, namespace);
  }
  return found;
}

export const useNamespaces = (fromSeconds: number, toSeconds: number, enabled: boolean) => {
  const end = Math.ceil(toSeconds);
  const start = Math.max(Math.floor(fromSeconds), end - LONGEST_SECONDS);
  return useQuery({
    queryKey: ["namespaces", start, end],
    queryFn: async ({ signal }) => {
      const q = `{ } | count_over_time() by (${[SERVICE, ...NAMESPACES].join(", ")})`;
      const parameters = { q, start, end, maxSeries: MOST_SERIES };
      const { body } = await tempo<TempoMetrics>("metrics/query", parameters, signal);
      return namespacesOf(body);
    },
    enabled,
    staleTime: 60_000,
    retry: false,
  });
};
