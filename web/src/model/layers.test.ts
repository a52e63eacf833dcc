import { describe, expect, it } from "vitest";
import { layers } from "./layers";

describe("layers", () => {
  it("puts callees right of their callers", () => {
    const edges = [
      ["nginx", "storefront"],
      ["storefront", "catalog"],
      ["storefront", "orders"],
      ["orders", "catalog"],
      ["catalog", "postgresql"],
    ] as const;
    const places = layers(["postgresql", "orders", "nginx", "catalog", "storefront"], edges);
    for (const [from, to] of edges) {
      expect(places.get(from)!.x, `${from} left of ${to}`).toBeLessThan(places.get(to)!.x);
    }
  });

  it("stands circles, calls to oneself and unknown names", () => {
    const places = layers(
      ["a", "b", "c"],
      [
        ["a", "b"],
        ["b", "c"],
        ["c", "a"],
        ["b", "b"],
        ["a", "nobody"],
      ],
    );
    expect([...places.keys()]).toEqual(["a", "b", "c"]);
    for (const { x, y } of places.values()) expect(Number.isFinite(x + y)).toBe(true);
  });

  it("never puts two nodes in one place", () => {
    const leaves = Array.from({ length: 12 }, (_, at) => `leaf-${at}`);
    const places = layers(
      ["root", ...leaves],
      leaves.map((leaf) => ["root", leaf] as const),
    );
    const ys = leaves.map((leaf) => places.get(leaf)!.y).sort((a, b) => a - b);
    for (let at = 1; at < ys.length; at++) expect(ys[at]! - ys[at - 1]!).toBeGreaterThan(0.999);
  });

  it("puts what does not hang together under each other, the largest on top", () => {
    const places = layers(
      ["curl", "test", "a", "b", "c", "alone"],
      [
        ["curl", "test"],
        ["a", "b"],
        ["b", "c"],
      ],
    );
    const y = (name: string) => places.get(name)!.y;
    expect(y("curl")).toBeGreaterThan(Math.max(y("a"), y("b"), y("c")) + 0.9);
    expect(new Set([...places.values()].map((place) => `${place.x} ${place.y}`)).size).toBe(6);
  });

  it("gives one picture for one graph, whatever the order of its parts", () => {
    const edges: [string, string][] = [
      ["a", "b"],
      ["a", "c"],
      ["c", "d"],
      ["b", "d"],
    ];
    expect(layers(["d", "c", "b", "a"], [...edges].reverse())).toEqual(
      layers(["a", "b", "c", "d"], edges),
    );
  });
});
