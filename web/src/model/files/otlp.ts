/** OTLP/JSON: what exporters write, and what `/api/traces/ID` of Tempo answers. */
import type { Attribute, SpanKind } from "../../api/types";
import { integer, list, object, text } from "./json";
import type { Json } from "./json";
import { attribute } from "./plain";
import type { PlainSpan } from "./plain";

const KINDS: readonly SpanKind[] = [
  "internal",
  "internal",
  "server",
  "client",
  "producer",
  "consumer",
];

export const isOtlp = (file: Json): boolean =>
  ["resourceSpans", "resource_spans", "batches", "trace"].some((key) => key in file);

/** Hexadecimal digits; Tempo writes ids in base64. */
function id(value: unknown, bytes: number): string {
  const given = text(value);
  if (given.length === bytes * 2 || !/^[A-Za-z0-9+/]+=*$/.test(given)) return given.toLowerCase();
  try {
    return [...atob(given)].map((one) => one.charCodeAt(0).toString(16).padStart(2, "0")).join("");
  } catch {
    return given;
  }
}

function value(any: Json): unknown {
  if ("intValue" in any) {
    const number = Number(any["intValue"]);
    return Number.isSafeInteger(number) ? number : text(any["intValue"]);
  }
  if ("arrayValue" in any) {
    return list(object(any["arrayValue"])["values"]).map((one) => value(object(one)));
  }
  if ("kvlistValue" in any) {
    return Object.fromEntries(pairs(object(any["kvlistValue"])["values"]));
  }
  return any["stringValue"] ?? any["doubleValue"] ?? any["boolValue"] ?? any["bytesValue"] ?? "";
}

const pairs = (all: unknown): [string, unknown][] =>
  list(all).map((one) => {
    const { key, value: any } = object(one);
    return [text(key), value(object(any))];
  });

const attributes = (all: unknown): Attribute[] =>
  pairs(all).map(([key, one]) => attribute(key, one));

function kind(given: unknown): SpanKind {
  if (typeof given === "number") return KINDS[given] ?? "internal";
  const name = text(given).replace("SPAN_KIND_", "").toLowerCase() as SpanKind;
  return KINDS.includes(name) ? name : "internal";
}

export function readOtlp(file: Json): PlainSpan[] {
  const outer = "trace" in file ? object(file["trace"]) : file;
  const groups = list(outer["resourceSpans"] ?? outer["resource_spans"] ?? outer["batches"]);
  return groups.flatMap((group) => {
    const one = object(group);
    const resource = Object.fromEntries(pairs(object(one["resource"])["attributes"]));
    const service = text(resource["service.name"]) || "unknown_service";
    const scopes = list(
      one["scopeSpans"] ?? one["scope_spans"] ?? one["instrumentationLibrarySpans"],
    );
    return scopes
      .flatMap((scope) => list(object(scope)["spans"]))
      .map((raw) => {
        const span = object(raw);
        const start = integer(span["startTimeUnixNano"]);
        const end = integer(span["endTimeUnixNano"]);
        const status = object(span["status"]);
        const parent = id(span["parentSpanId"], 8);
        return {
          traceId: id(span["traceId"], 16),
          id: id(span["spanId"], 8),
          parentId: parent === "" || /^0+$/.test(parent) ? null : parent,
          service,
          operation: text(span["name"]),
          kind: kind(span["kind"]),
          startNano: start,
          durationNano: end > start ? end - start : 0n,
          failed: status["code"] === 2 || status["code"] === "STATUS_CODE_ERROR",
          error: text(status["message"]),
          attributes: attributes(span["attributes"]),
          events: list(span["events"]).map((event) => ({
            name: text(object(event)["name"]),
            time_unix_nano: String(integer(object(event)["timeUnixNano"])),
            attributes: attributes(object(event)["attributes"]),
          })),
          resource,
        };
      });
  });
}
