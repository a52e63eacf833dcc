/** Jaeger's JSON: what its UI and `/api/traces/ID` write. */
import type { Attribute, SpanKind } from "../../api/types";
import { integer, list, object, text } from "./json";
import type { Json } from "./json";
import { attribute } from "./plain";
import type { PlainSpan } from "./plain";

const KINDS = ["client", "server", "producer", "consumer", "internal"];

/** A document with `data`, or one trace of it. */
export const isJaeger = (file: Json): boolean =>
  "processes" in object(list(file["data"])[0]) || ("processes" in file && "spans" in file);

const tags = (all: unknown): Attribute[] =>
  list(all).map((tag) => attribute(text(object(tag)["key"]), object(tag)["value"]));

export function readJaeger(file: Json): PlainSpan[] {
  const traces = "data" in file ? list(file["data"]) : [file];
  return traces.flatMap((one) => {
    const trace = object(one);
    const processes = object(trace["processes"]);
    return list(trace["spans"]).map((raw) => {
      const span = object(raw);
      const process = object(processes[text(span["processID"])] ?? span["process"]);
      const attributes = tags(span["tags"]);
      const tag = (key: string) => attributes.find((each) => each.key === key)?.value;
      const references = list(span["references"]).map(object);
      const parent =
        references.find(
          (each) => each["refType"] === "CHILD_OF" && each["traceID"] === span["traceID"],
        ) ?? references.find((each) => each["traceID"] === span["traceID"]);
      const kind = text(tag("span.kind"));
      return {
        traceId: text(span["traceID"]),
        id: text(span["spanID"]),
        parentId: parent ? text(parent["spanID"]) : null,
        service: text(process["serviceName"]) || "unknown_service",
        operation: text(span["operationName"]),
        kind: (KINDS.includes(kind) ? kind : "internal") as SpanKind,
        startNano: integer(span["startTime"]) * 1000n,
        durationNano: integer(span["duration"]) * 1000n,
        failed:
          tag("error") === true || tag("error") === "true" || tag("otel.status_code") === "ERROR",
        error: text(tag("otel.status_description")),
        attributes,
        events: list(span["logs"]).map((log) => {
          const fields = tags(object(log)["fields"]);
          return {
            name: text(fields.find((each) => each.key === "event")?.value) || "log",
            time_unix_nano: String(integer(object(log)["timestamp"]) * 1000n),
            attributes: fields.filter((each) => each.key !== "event"),
          };
        }),
        resource: Object.fromEntries(tags(process["tags"]).map((each) => [each.key, each.value])),
      };
    });
  });
}
