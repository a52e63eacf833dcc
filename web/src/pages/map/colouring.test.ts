import { expect, it } from "vitest";
import type { GraphEdge } from "../../api/types";
import { alarmOf, hues } from "./colouring";

const edge = (fields: Partial<GraphEdge>): GraphEdge =>
  ({ client: "a", server: "b", errors: 0, error_share: 0, p95_nano: "0", ...fields }) as GraphEdge;
const network = (calls: number, resent_calls: number) => ({
  calls,
  connects: 0,
  resent_calls,
  retransmits: resent_calls,
});

it("tells calls that nobody saw from those that lost nothing", () => {
  const edges = [
    edge({}),
    edge({ network: network(10, 0) }),
    edge({ network: network(1000, 1) }),
    edge({ network: network(10, 10) }),
  ];
  const hue = hues(edges, "retransmits");
  expect(edges.slice(0, 2).map(hue)).toEqual(["pale", "plain"]);
  const [rare, always] = edges.slice(2).map((one) => hue(one));
  expect(rare).toMatchObject({ tone: "error", share: expect.closeTo(0.456, 2) });
  expect(always).toEqual({ tone: "error", share: 1 });
  expect(edges.map((one) => alarmOf(one, "retransmits"))).toEqual([
    "",
    "",
    "0.1% resent",
    "100% resent",
  ]);
});

it("compares latencies on a scale of powers of ten", () => {
  const edges = ["1000000", "10000000", "100000000"].map((p95_nano) => edge({ p95_nano }));
  expect(edges.map(hues(edges, "latency"))).toEqual([
    "plain",
    { tone: "warn", share: 0.5 },
    { tone: "warn", share: 1 },
  ]);
  expect(hues(edges.slice(0, 1), "latency")(edges[0]!)).toBe("plain");
});

it("says errors in every colouring but that of retransmits", () => {
  const failed = edge({ errors: 1, error_share: 0.25, network: network(4, 0) });
  expect(hues([failed], "errors")(failed)).toEqual({ tone: "error", share: 1 });
  expect(alarmOf(failed, "latency")).toBe("25% err");
  expect(alarmOf(failed, "retransmits")).toBe("");
});
