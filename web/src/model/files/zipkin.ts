/** Zipkin's JSON, version 2: a list of spans, or of lists of spans. */
import type { SpanKind } from "../../api/types";
import { integer, list, object, text } from "./json";
import { attribute } from "./plain";
import type { PlainSpan } from "./plain";

const KINDS = ["client", "server", "producer", "consumer"];

export function isZipkin(file: unknown): boolean {
  const first = object(list(file).flat()[0]);
  return "traceId" in first && "id" in first;
}

export function readZipkin(file: unknown): PlainSpan[] {
  // A server's side of a shared span comes after the client's, which keeps the id.
  const spans = list(file).flat().map(object);
  spans.sort((a, b) => Number(a["shared"] === true) - Number(b["shared"] === true));
  return spans.map((span) => {
    const tags = object(span["tags"]);
    const kind = text(span["kind"]).toLowerCase();
    const service = text(object(span["localEndpoint"])["serviceName"]);
    return {
      traceId: text(span["traceId"]),
      id: text(span["id"]),
      parentId: text(span["parentId"]) || null,
      service: service || "unknown_service",
      operation: text(span["name"]),
      kind: (KINDS.includes(kind) ? kind : "internal") as SpanKind,
      startNano: integer(span["timestamp"]) * 1000n,
      durationNano: integer(span["duration"]) * 1000n,
      failed: "error" in tags,
      error: text(tags["error"]),
      attributes: Object.entries(tags).map(([key, value]) => attribute(key, value)),
      events: list(span["annotations"]).map((one) => ({
        name: text(object(one)["value"]),
        time_unix_nano: String(integer(object(one)["timestamp"]) * 1000n),
        attributes: [],
      })),
      resource: object(span["localEndpoint"]),
    };
  });
}
