import { describe, expect, it } from "vitest";
import type { Span, TracePage } from "../api/types";
import { ancestors, clocksAhead, index, isElsewhere, otherSide, rows, uncertain } from "./tree";

const START = 1_763_706_600_000_000_000n;

function span(id: string, parent: string | null, fields: Partial<Span> = {}): Span {
  return {
    span_id: id,
    parent,
    start_unix_nano: String(START),
    duration_nano: "1000",
    service: "orders",
    operation: id,
    kind: "server",
    status: "unset",
    capture: "server-process",
    depth: 0,
    self_nano: "0",
    children: [],
    ...fields,
  };
}

function trace(spans: Span[]): TracePage {
  const byId = new Map(spans.map((one) => [one.span_id, one]));
  for (const one of spans) {
    if (one.parent !== null) byId.get(one.parent)?.children.push(one.span_id);
  }
  return {
    trace_id: "t",
    start_unix_nano: String(START),
    duration_nano: "1000",
    roots: spans.filter((one) => one.parent === null).map((one) => one.span_id),
    spans,
    warnings: [],
    services: [],
    clocks: [],
    span_count: spans.length,
    error_count: 0,
    depth: 1,
    complete: true,
    first: 0,
    next_after: null,
    snapshot: "",
  };
}

const ALL = { closed: new Set<string>(), merge: false, filter: "" };
const shape = (list: ReturnType<typeof rows>) =>
  list.map((row) => `${row.level}${row.span.span_id}${row.last ? "." : ""}`).join(" ");

/**
 * `a` serves a request and calls `b`. The server side of `b` is `c`, which calls `d`. `a` also
 * calls `e`.
 */
function hop(): TracePage {
  return trace([
    span("a", null),
    span("b", "a", {
      capture: "client-process",
      duration_nano: "900",
      evidence: "thread",
      confidence: 1,
    }),
    span("c", "b", { duration_nano: "700", evidence: "tcp_sequence", confidence: 1 }),
    span("d", "c", { capture: "client-process", evidence: "sole_request", confidence: 0.9 }),
    span("e", "a", {
      capture: "client-process",
      status: "error",
      attributes: [{ key: "db.query.text", type: "string", value: "SELECT 1" }],
      evidence: "thread",
      confidence: 1,
    }),
  ]);
}

describe("clocks", () => {
  it("does not draw a trace to the scale of a span from 1970", () => {
    const mark = (value: string): Partial<Span> => ({
      attributes: [{ key: "spanwise.clock", type: "string", value }],
    });
    const past = span("b", "a", {
      ...mark("past"),
      start_unix_nano: "0",
      duration_nano: "9".repeat(18),
    });
    const future = span("c", "a", { ...mark("future"), duration_nano: "9".repeat(18) });
    const long = span("d", "a", { ...mark("long"), duration_nano: "5000" });
    const tree = index(trace([span("a", null), past, future, long]));
    expect(tree.length).toBe(5000);
    expect([past, future, long].map(isElsewhere)).toEqual([true, true, false]);
    expect(tree.start.get("b")).toBeLessThan(0);
  });
});

describe("rows", () => {
  it("follow the tree in order", () => {
    const list = rows(index(hop()), ALL);
    expect(shape(list)).toBe("0a. 1b 2c. 3d. 1e.");
    expect(list.map((row) => row.parent)).toEqual([-1, 0, 1, 2, 0]);
    expect(list.map((row) => row.link)).toEqual(["root", "certain", "certain", "guess", "certain"]);
  });

  it("leave out what is under a closed line", () => {
    const list = rows(index(hop()), { ...ALL, closed: new Set(["b"]) });
    expect(shape(list)).toBe("0a. 1b 1e.");
    expect(list[1]!.closed).toBe(true);
  });

  it("merge the two sides of a hop and keep the network's time", () => {
    const list = rows(index(hop()), { ...ALL, merge: true });
    expect(shape(list)).toBe("0a. 1b 2d. 1e.");
    expect(list[1]!.server!.span_id).toBe("c");
    expect(list[1]!.networkNano).toBe(200);
  });

  it("merge only what TCP sequences prove, and only one to one", () => {
    const guessed = hop();
    guessed.spans[2]!.evidence = "timing";
    expect(otherSide(index(guessed), guessed.spans[1]!)).toBeNull();
    const two = trace([
      span("a", null, { capture: "client-process" }),
      span("b", "a", { evidence: "tcp_sequence" }),
      span("c", "a", { evidence: "tcp_sequence" }),
    ]);
    expect(otherSide(index(two), two.spans[0]!)).toBeNull();
  });

  it("filter by what is shown and by attributes, and keep the way down", () => {
    const tree = index(hop());
    const found = rows(tree, { ...ALL, filter: "select status:error" });
    expect(shape(found)).toBe("0a. 1e.");
    expect(found.map((row) => row.matched)).toEqual([false, true]);
    expect(rows(tree, { ...ALL, filter: "nowhere" })).toEqual([]);
  });

  it("stand a trace that is 20,000 levels deep", () => {
    const deep = trace(
      Array.from({ length: 20_000 }, (_, at) => span(`s${at}`, at === 0 ? null : `s${at - 1}`)),
    );
    const list = rows(index(deep), ALL);
    expect(list).toHaveLength(20_000);
    expect(list.at(-1)!.level).toBe(19_999);
  });
});

describe("a page from the middle of a trace", () => {
  const page = () => {
    const spans = hop().spans;
    const depth: Record<string, number> = { a: 0, b: 1, c: 2, d: 3, e: 1 };
    for (const one of spans) one.depth = depth[one.span_id]!;
    return { ...trace([]), spans: spans.slice(2), roots: [], first: 2, span_count: 5 };
  };

  it("shows what is there at the level that it has in the whole", () => {
    expect(shape(rows(index(page()), ALL))).toBe("2c. 3d. 1e.");
  });

  it("counts children that are not here, and shows those that are", () => {
    const middle = { ...page(), spans: page().spans.slice(0, 1) };
    const list = rows(index(middle), ALL);
    expect(shape(list)).toBe("2c.");
    expect(list[0]!.children).toBe(1);
  });
});

describe("clocks of several hosts", () => {
  const at = (ms: number) => String(START + BigInt(ms) * 1_000_000n);
  const apart = (host: string, reference: string, ms: number) => ({
    host,
    reference,
    ahead_nano: String(ms * 1e6),
    uncertainty_nano: "0",
    exchanges: 1,
    notable: true,
  });
  /** The clock of `b` is 500 ms behind that of `a`, and `c` is 20 ms ahead of `b`. */
  function skewed(): TracePage {
    const spans = [
      span("a", null, { host: "a", start_unix_nano: at(500), duration_nano: "100000000" }),
      span("b", "a", { host: "b", start_unix_nano: at(10), duration_nano: "80000000" }),
      span("c", "b", { host: "c", start_unix_nano: at(50), duration_nano: "10000000" }),
      span("d", "c", { start_unix_nano: at(510), duration_nano: "1000000" }),
    ];
    return { ...trace(spans), clocks: [apart("b", "a", -500), apart("b", "c", -20)] };
  }

  it("are compared with that of the first span, over other hosts where need be", () => {
    expect([...clocksAhead(skewed())]).toEqual([
      ["a", 0],
      ["b", -500e6],
      ["c", -480e6],
    ]);
    expect(clocksAhead(hop()).size).toBe(0);
  });

  it("are drawn as reported, and aligned where that is asked for", () => {
    expect(index(skewed()).start.get("b")).toBe(10e6);
    const tree = index(skewed(), true);
    expect([...tree.start.values()].map((nano) => nano / 1e6)).toEqual([0, 10, 30, 10]);
    expect(tree.length).toBe(100e6);
  });
});

it("finds the way up, even where the data runs in a circle", () => {
  expect(ancestors(index(hop()), "d")).toEqual(["c", "b", "a"]);
  const circle = trace([span("x", "y"), span("y", "x")]);
  expect(ancestors(index(circle), "x")).toEqual(["y"]);
});

it("counts guesses and links that were not made", () => {
  const some = hop();
  some.spans.push(span("f", null, { evidence: "ambiguous" }));
  expect(uncertain(some)).toBe(2);
});
