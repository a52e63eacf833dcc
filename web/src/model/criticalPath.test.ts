import { describe, expect, it } from "vitest";
import type { Span, TracePage } from "../api/types";
import { callAt, callTree, difference, flame, operationRows } from "./callTree";
import { criticalPath, pathSteps } from "./criticalPath";
import { deeperThan, index, rows } from "./tree";

type Given = [id: string, parent: string | null, from: number, to: number, name?: string];

/** A trace of spans in depth-first order; own times are what the test says, or 1. */
function traced(given: readonly Given[], failed: readonly string[] = []) {
  const depth = new Map<string, number>();
  const below = new Map<string | null, string[]>();
  for (const [id, parent] of given) below.set(parent, [...(below.get(parent) ?? []), id]);
  const spans = given.map(([id, parent, from, to, name = id]): Span => {
    depth.set(id, parent === null ? 0 : depth.get(parent)! + 1);
    return {
      span_id: id,
      parent,
      service: "s",
      operation: name,
      kind: "internal",
      capture: "app",
      status: failed.includes(id) ? "error" : "unset",
      start_unix_nano: String(from),
      duration_nano: String(to - from),
      self_nano: "1",
      depth: depth.get(id)!,
      children: below.get(id) ?? [],
    };
  });
  const end = Math.max(...given.map(([, , , to]) => to));
  return index({
    trace_id: "t",
    start_unix_nano: "0",
    duration_nano: String(end),
    spans,
    services: [],
    clocks: [],
    span_count: spans.length,
    first: 0,
    next_after: null,
  } as unknown as TracePage);
}

describe("the critical path", () => {
  it("goes through the child that ended last, and not through what ran beside it", () => {
    const tree = traced([
      ["root", null, 0, 100],
      ["quick", "root", 10, 30],
      ["slow", "root", 10, 60],
      ["query", "slow", 20, 50],
      ["last", "root", 70, 90],
    ]);
    expect(criticalPath(tree)).toEqual([
      { id: "root", from: 0, to: 10 },
      { id: "slow", from: 10, to: 20 },
      { id: "query", from: 20, to: 50 },
      { id: "slow", from: 50, to: 60 },
      { id: "root", from: 60, to: 70 },
      { id: "last", from: 70, to: 90 },
      { id: "root", from: 90, to: 100 },
    ]);
    const steps = pathSteps(tree, criticalPath(tree));
    expect(steps.map((one) => [one.span.span_id, one.nano])).toEqual([
      ["root", 30],
      ["query", 30],
      ["slow", 20],
      ["last", 20],
    ]);
  });

  it("covers the root exactly, even if a child outlives it or starts before it", () => {
    const tree = traced([
      ["root", null, 10, 50],
      ["early", "root", 5, 20],
      ["late", "root", 40, 90],
    ]);
    expect(criticalPath(tree)).toEqual([
      { id: "early", from: 10, to: 20 },
      { id: "root", from: 20, to: 40 },
      { id: "late", from: 40, to: 50 },
    ]);
  });

  it("is never in a parent while a child ran", () => {
    const tree = traced([
      ["root", null, 0, 30],
      ["first", "root", 0, 12],
      ["second", "root", 10, 30],
    ]);
    expect(criticalPath(tree)).toEqual([
      { id: "first", from: 0, to: 10 },
      { id: "second", from: 10, to: 30 },
    ]);
  });

  it("survives ten thousand levels", () => {
    const given = Array.from({ length: 10_000 }, (_, at): Given => [
      `${at}`,
      at === 0 ? null : `${at - 1}`,
      at,
      30_000 - at,
    ]);
    const tree = traced(given);
    expect(criticalPath(tree).length).toBe(2 * given.length - 1);
    expect(callTree(tree).length).toBe(1);
  });

  it("of nothing is nothing", () => {
    expect(criticalPath(traced([["a", null, 0, 0]]))).toEqual([]);
  });
});

const N_PLUS_1: Given[] = [
  ["root", null, 0, 100],
  ["q1", "root", 0, 10, "SELECT"],
  ["q2", "root", 10, 20, "SELECT"],
  ["q3", "root", 20, 40, "SELECT"],
  ["other", "root", 40, 50],
];

describe("merged calls", () => {
  it("add up calls of one name from one place", () => {
    const tops = callTree(traced(N_PLUS_1, ["q2"]));
    expect(
      tops[0]!.children.map((one) => [one.operation, one.count, one.totalNano, one.errors]),
    ).toEqual([
      ["SELECT", 3, 40, 1],
      ["other", 1, 10, 0],
    ]);
    expect(callAt(tops, tops[0]!.children[1]!.id)!.operation).toBe("other");
    expect(callAt(tops, 99)).toBe(undefined);
  });

  it("are as wide as their time, and fit into their caller", () => {
    const { boxes, levels } = flame(callTree(traced(N_PLUS_1)));
    expect(boxes.map((one) => [one.call.operation, one.level, one.left, one.width])).toEqual([
      ["root", 0, 0, 1],
      ["SELECT", 1, 0, 0.4],
      ["other", 1, 0.4, 0.1],
    ]);
    expect(levels).toBe(2);
    const parallel = flame(
      callTree(
        traced([
          ["root", null, 0, 10],
          ["a", "root", 0, 10],
          ["b", "root", 0, 10],
        ]),
      ),
    );
    expect(parallel.boxes.map((one) => one.width)).toEqual([1, 0.5, 0.5]);
  });

  it("differ by what is added, gone, slower", () => {
    const before = callTree(traced(N_PLUS_1));
    const now = callTree(
      traced([
        ["root", null, 0, 100],
        ["q1", "root", 0, 80, "SELECT"],
        ["new", "root", 80, 90],
      ]),
    );
    expect(difference(before, now).map((one) => [one.operation, one.level, one.verdict])).toEqual([
      ["root", 0, "same"],
      ["SELECT", 1, "slower"],
      ["new", 1, "added"],
      ["other", 1, "gone"],
    ]);
    expect(difference(now, before).find((one) => one.operation === "SELECT")!.verdict).toBe(
      "faster",
    );
  });

  it("by operation", () => {
    const select = operationRows(traced(N_PLUS_1)).find((one) => one.operation === "SELECT")!;
    expect([select.count, select.totalNano, select.longestNano, select.selfNano]).toEqual([
      3, 40, 20, 3,
    ]);
  });
});

describe("lines of the waterfall", () => {
  const shown = (failed: string[], fold: boolean) =>
    rows(traced(N_PLUS_1, failed), { closed: new Set(), merge: false, filter: "", fold }).map(
      (row) => [row.span.span_id, row.repeated?.count ?? 0],
    );
  it("fold repeated siblings, but none that failed", () => {
    expect(shown([], true)).toEqual([
      ["root", 0],
      ["q1", 3],
      ["other", 0],
    ]);
    expect(shown(["q2"], true).length).toBe(5);
    expect(shown([], false).length).toBe(5);
  });
  it("collapse to a depth", () => {
    const tree = traced([
      ["a", null, 0, 9],
      ["b", "a", 0, 9],
      ["c", "b", 0, 9],
    ]);
    expect([...deeperThan(tree, 2)]).toEqual(["b"]);
    expect([...deeperThan(tree, 1)]).toEqual(["a", "b"]);
  });
});
