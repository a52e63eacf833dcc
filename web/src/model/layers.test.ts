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

  it("breaks a column that is taller than a picture", () => {
    const leaves = Array.from({ length: 600 }, (_, at) => `leaf-${at}`);
    const places = layers(
      ["root", ...leaves],
      leaves.map((leaf) => ["root", leaf] as const),
    );
    const all = [...places.values()];
    expect(Math.max(...all.map((place) => place.x))).toBeGreaterThan(10);
    const ys = all.map((place) => place.y);
    expect(Math.max(...ys) - Math.min(...ys)).toBeLessThan(60);
    expect(new Set(all.map((place) => `${place.x} ${place.y}`)).size).toBe(601);
  });

  it("lays out 2,000 services with 10,000 calls in a picture's shape", () => {
    const names = Array.from({ length: 2000 }, (_, at) => `s${String(at).padStart(4, "0")}`);
    const steps = [1, 7, 31, 101, 211];
    const edges = names.flatMap((name, at) =>
      steps.flatMap((step) => (names[at + step] ? [[name, names[at + step]!] as const] : [])),
    );
    const places = layers(names, edges);
    // 2,000 levels share columns, but no edge leads to the left.
    for (const [from, to] of edges) {
      expect(places.get(from)!.x).toBeLessThanOrEqual(places.get(to)!.x);
    }
    const [xs, ys] = [
      [...places.values()].map(({ x }) => x),
      [...places.values()].map(({ y }) => y),
    ];
    expect(Math.max(...xs)).toBeLessThan(80);
    expect(Math.max(...ys) - Math.min(...ys)).toBeLessThan(150);
  });
});
