import { describe, expect, test } from "vitest";
import type { Span, TracePage } from "../api/types";
import { hopAt, hops, inWords } from "./hops";
import { index } from "./tree";

const span = (id: string, parent: string | null, more: Partial<Span>): Span => ({
  span_id: id,
  parent,
  service: "front",
  operation: "GET /",
  kind: "client",
  capture: "client-process",
  status: "unset",
  start_unix_nano: "0",
  duration_nano: "100",
  self_nano: "0",
  depth: 0,
  children: [],
  evidence: "tcp_sequence",
  ...more,
});

function tree(...spans: Span[]) {
  for (const one of spans) {
    one.children = spans.filter((other) => other.parent === one.span_id).map((o) => o.span_id);
  }
  return index({
    trace_id: "t",
    start_unix_nano: "0",
    duration_nano: "100",
    spans,
    clocks: [],
  } as unknown as TracePage);
}

const server = (parent: string, duration: string, self: string, more: Partial<Span> = {}) =>
  span("s", parent, {
    service: "back",
    kind: "server",
    capture: "server-process",
    duration_nano: duration,
    self_nano: self,
    ...more,
  });

const parts = (of: ReturnType<typeof tree>, id = "c") =>
  hopAt(of, of.spans.get(id)!)!.parts.map((part) => [part.kind, part.nano, part.estimated]);

describe("parts of a hop", () => {
  test("two sides: what is between them, the called process, and its calls", () => {
    expect(parts(tree(span("c", null, {}), server("c", "70", "50")))).toEqual([
      ["between", 30, false],
      ["own", 50, false],
      ["calls", 20, false],
    ]);
  });

  test("the connection's round trip splits what is between, as an estimate", () => {
    expect(parts(tree(span("c", null, { rtt_nano: "10" }), server("c", "70", "70")))).toEqual([
      ["network", 10, true],
      ["between", 20, true],
      ["own", 70, false],
    ]);
  });

  test("every place on the road tells kernels and the network apart, as measured", () => {
    const of = tree(
      span("c", null, { rtt_nano: "10" }),
      span("n", "c", { capture: "client-nic", duration_nano: "95" }),
      span("m", "n", { capture: "server-nic", duration_nano: "75" }),
      server("m", "70", "70"),
    );
    expect(parts(of)).toEqual([
      ["caller-kernel", 5, false],
      ["network", 20, false],
      ["called-kernel", 5, false],
      ["own", 70, false],
    ]);
  });

  test("they never add up to more than the call, even if the called side goes on", () => {
    const of = tree(span("c", null, {}), server("c", "150", "120"));
    expect(parts(of)).toEqual([["own", 100, false]]);
    expect(hopAt(of, of.spans.get("c")!)!.notes).toEqual(["the called side went on for 50 ns"]);
  });

  test("a side that was not seen stays unseen", () => {
    expect(parts(tree(span("c", null, { rtt_nano: "10" })))).toEqual([
      ["network", 10, true],
      ["unseen", 90, false],
    ]);
  });

  test("of two possible other sides, none is taken", () => {
    const of = tree(span("c", null, {}), server("c", "70", "50"), {
      ...server("c", "60", "50"),
      span_id: "s2",
    });
    expect(parts(of)).toEqual([["unseen", 100, false]]);
  });

  test("what runs inside the called process is its own, also if an SDK reports it", () => {
    const of = tree(
      span("c", null, {}),
      server("c", "70", "5"),
      span("i", "s", { service: "back", kind: "server", capture: "app", self_nano: "45" }),
      span("d", "i", { service: "back", self_nano: "20" }),
    );
    expect(parts(of)).toEqual([
      ["between", 30, false],
      ["own", 50, false],
      ["calls", 20, false],
    ]);
  });

  test("sides that SDKs report make a hop too", () => {
    const of = tree(
      span("c", null, { capture: "app" }),
      server("c", "80", "80", { capture: "app", evidence: "span_context" }),
    );
    expect(parts(of)).toEqual([
      ["between", 20, false],
      ["own", 80, false],
    ]);
  });
});

test("a call that SDK and kernel both saw is one hop", () => {
  const of = tree(span("a", null, { capture: "app" }), span("c", "a", {}), server("c", "70", "70"));
  expect(hops(of).map((hop) => hop.client.span_id)).toEqual(["c"]);
});

test("words name the longest part first, say about for estimates, and what else was seen", () => {
  const of = tree(
    span("c", null, { rtt_nano: "10", retransmits: 2, connect_nano: "1000" }),
    server("c", "70", "70"),
  );
  expect(inWords(hops(of)[0]!)).toBe(
    "70 ns in the called process itself, about 20 ns in kernels, queues and the network between, about 10 ns in the network; opening its connection took 1 µs; data was sent again 2 times.",
  );
});
