import { useEffect, useMemo, useRef, useState } from "react";
import type { Graph } from "../../api/types";
import type { Place } from "../../model/layers";
import type { LayoutAsked, LayoutMade } from "./layout.worker";

/** Columns and rows of the graph's nodes. Until the layout of a new graph is ready, the last one. */
export function useLayout(graph: Graph): ReadonlyMap<string, Place> | null {
  const worker = useRef<Worker | null>(null);
  const [places, setPlaces] = useState<ReadonlyMap<string, Place> | null>(null);
  const asked = useMemo((): LayoutAsked => {
    const names = graph.nodes.map((node) => node.name).sort();
    const pairs = new Set(graph.edges.map(({ client, server }) => `${client}\n${server}`));
    const edges = [...pairs].sort();
    return {
      // Numbers change every few seconds, but the shape of a graph rarely changes.
      key: `${names.join("\n")}\n\n${edges.join("\n\n")}`,
      names,
      edges: edges.map((pair) => pair.split("\n") as [string, string]),
    };
  }, [graph]);
  const latest = useRef(asked);
  latest.current = asked;
  useEffect(() => {
    const made = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    made.onmessage = ({ data }: MessageEvent<LayoutMade>) => {
      const { key, names } = latest.current;
      if (data.key !== key) return;
      setPlaces(new Map(names.map((name, at) => [name, { x: data.x[at]!, y: data.y[at]! }])));
    };
    worker.current = made;
    return () => made.terminate();
  }, []);
  useEffect(() => worker.current?.postMessage(asked), [asked.key]);
  return places;
}
