import { describe, expect, it } from "vitest";
import type { EdgeNetwork, GraphEdge } from "../api/types";
import { networkTogether, peers, resentShare, resentText, seenText, UNSEEN } from "./network";

const network = (calls: number, resent: number, more: Partial<EdgeNetwork> = {}): EdgeNetwork => ({
  calls,
  connects: 0,
  resent_calls: resent,
  retransmits: 2 * resent,
  ...more,
});

const edge = (client: string, server: string, requests: number, seen?: EdgeNetwork): GraphEdge =>
  ({ client, server, protocol: "http", requests, ...(seen ? { network: seen } : {}) }) as GraphEdge;

describe("peers", () => {
  const step = (calls: number, resent_calls: number) => ({
    calls,
    resent_calls,
    retransmits: resent_calls,
    start_unix_nano: "0",
  });
  const edges = [
    edge("shop", "stock", 100, network(80, 4, { steps: [step(0, 0), step(60, 0), step(20, 4)] })),
    edge("web", "shop", 500, network(500, 0)),
    edge("shop", "payments", 900),
    edge("web", "stock", 7, network(7, 7)),
  ];

  it("are those of the service, the worst first, the unseen last", () => {
    const all = peers(edges, "shop");
    expect(all.map((one) => [one.other, one.calls])).toEqual([
      ["stock", false],
      ["web", true],
      ["payments", false],
    ]);
  });

  it("have no value where nothing was seen, and zero where nothing was lost", () => {
    const [stock, web, payments] = peers(edges, "shop");
    expect(stock!.over).toEqual([null, 0, 0.2]);
    expect(resentShare(web!.seen)).toBe(0);
    expect(resentShare(payments!.seen)).toBeNull();
    expect([stock, web, payments].map((one) => seenText(one!))).toEqual([
      "80 of 100",
      "500",
      UNSEEN,
    ]);
  });
});

describe("several edges as one", () => {
  it("adds counts, takes the slowest times, and leaves out what nobody saw", () => {
    const made = networkTogether([
      edge("a", "b", 10, network(10, 1, { rtt_p50_nano: "90", connects: 2 })),
      edge("a", "c", 10, network(30, 0, { rtt_p50_nano: "1000", connect_p95_nano: "5" })),
      edge("a", "d", 10),
    ]);
    expect(made).toEqual({
      calls: 40,
      connects: 2,
      resent_calls: 1,
      retransmits: 2,
      connect_p95_nano: "5",
      rtt_p50_nano: "1000",
    });
    expect(networkTogether([edge("a", "d", 10)])).toBeUndefined();
  });
});

it("says how much was sent again, or that nobody saw it", () => {
  expect(resentText(network(200, 3))).toBe("1.5% of calls, 6 segments");
  expect(resentText(network(200, 0))).toBe("none");
  expect(resentText(undefined)).toBe(UNSEEN);
});
