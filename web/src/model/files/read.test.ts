import { describe, expect, it } from "vitest";
import { readFile } from "./read";

const T = "0af7651916cd43dd8448eb211c80319c";
const A = "b7ad6b7169203331";
const B = "00f067aa0ba902b7";
const START = "1700000000000000000";

const otlp = {
  resourceSpans: [
    {
      resource: { attributes: [{ key: "service.name", value: { stringValue: "shop" } }] },
      scopeSpans: [
        {
          spans: [
            {
              traceId: T,
              spanId: B,
              parentSpanId: A,
              name: "SELECT",
              kind: 3,
              startTimeUnixNano: "1700000000000200000",
              endTimeUnixNano: "1700000000000700000",
              status: { code: 2, message: "deadlock" },
              attributes: [{ key: "rows", value: { intValue: "3" } }],
            },
            {
              traceId: T,
              spanId: A,
              name: "GET /",
              kind: "SPAN_KIND_SERVER",
              startTimeUnixNano: START,
              endTimeUnixNano: "1700000000001000000",
            },
          ],
        },
      ],
    },
  ],
};
const jaeger = {
  data: [
    {
      traceID: T,
      processes: { p1: { serviceName: "shop", tags: [] } },
      spans: [
        {
          traceID: T,
          spanID: A,
          operationName: "GET /",
          references: [],
          startTime: 1700000000000000,
          duration: 1000,
          tags: [{ key: "span.kind", type: "string", value: "server" }],
          processID: "p1",
        },
        {
          traceID: T,
          spanID: B,
          operationName: "SELECT",
          references: [{ refType: "CHILD_OF", traceID: T, spanID: A }],
          startTime: 1700000000000200,
          duration: 500,
          tags: [
            { key: "span.kind", type: "string", value: "client" },
            { key: "error", type: "bool", value: true },
            { key: "otel.status_description", type: "string", value: "deadlock" },
          ],
          processID: "p1",
        },
      ],
    },
  ],
};
const zipkin = [
  {
    traceId: T,
    id: A,
    kind: "SERVER",
    name: "GET /",
    timestamp: 1700000000000000,
    duration: 1000,
    localEndpoint: { serviceName: "shop" },
  },
  {
    traceId: T,
    id: B,
    parentId: A,
    kind: "CLIENT",
    name: "SELECT",
    timestamp: 1700000000000200,
    duration: 500,
    localEndpoint: { serviceName: "shop" },
    tags: { error: "deadlock" },
  },
];

describe("a file of spans", () => {
  for (const [name, file] of Object.entries({ otlp, jaeger, zipkin })) {
    it(`of ${name} is one tree`, () => {
      const trace = readFile(JSON.stringify(file), `${name}.json`);
      expect(trace.trace_id).toBe(T);
      expect([trace.start_unix_nano, trace.duration_nano]).toEqual([START, "1000000"]);
      expect(
        trace.spans.map((one) => [
          one.span_id,
          one.parent,
          one.depth,
          one.kind,
          one.operation,
          one.duration_nano,
          one.self_nano,
          one.status,
          one.error,
        ]),
      ).toEqual([
        [A, null, 0, "server", "GET /", "1000000", "500000", "unset", undefined],
        [B, A, 1, "client", "SELECT", "500000", "500000", "error", "deadlock"],
      ]);
      expect(trace.services).toEqual([{ name: "shop", spans: 2, errors: 1, busy_nano: "1000000" }]);
    });
  }

  it("may have ids in base64, as Tempo writes them", () => {
    const base64 = (hex: string) => Buffer.from(hex, "hex").toString("base64");
    const text = JSON.stringify(otlp).replaceAll(T, base64(T)).replaceAll(A, base64(A));
    const trace = readFile(text, "tempo.json");
    expect([trace.trace_id, trace.spans[1]!.parent]).toEqual([T, A]);
  });

  it("keeps both sides of a span that Zipkin shares", () => {
    const shared = {
      ...zipkin[1],
      kind: "SERVER",
      shared: true,
      localEndpoint: { serviceName: "db" },
    };
    const trace = readFile(JSON.stringify([shared, ...zipkin]), "z.json");
    expect(trace.spans.map((one) => [one.service, one.parent])).toEqual([
      ["shop", null],
      ["shop", A],
      ["db", B],
    ]);
  });

  it("may be one document a line", () => {
    const line = JSON.stringify(otlp);
    expect(readFile(`${line}\n`, "a").span_count).toBe(2);
    const other = line.replaceAll(A, "aaaaaaaaaaaaaaaa").replaceAll(B, "bbbbbbbbbbbbbbbb");
    expect(readFile(`${line}\n${other}\n`, "a").span_count).toBe(4);
  });

  it("that makes no sense is refused with a reason", () => {
    expect(() => readFile("{", "a")).toThrow(/not JSON/);
    expect(() => readFile("{}", "a")).toThrow(/neither OTLP/);
    expect(() => readFile('{"resourceSpans":[]}', "a")).toThrow(/no spans/);
    expect(() => readFile("[]", "a")).toThrow(/neither/);
  });

  it("with a circle of parents says what it leaves out", () => {
    const circle = structuredClone(zipkin) as { parentId?: string }[];
    circle[0]!.parentId = B;
    circle.push({ ...zipkin[0], id: "cccccccccccccccc" } as never);
    const trace = readFile(JSON.stringify(circle), "z");
    expect(trace.spans.length).toBe(1);
    expect(trace.warnings.some((one) => one.includes("2 spans are left out"))).toBe(true);
  });
});
