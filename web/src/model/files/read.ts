/** Reads a file of spans, whatever its format. */
import type { TracePage } from "../../api/types";
import { isJaeger, readJaeger } from "./jaeger";
import { object } from "./json";
import { isOtlp, readOtlp } from "./otlp";
import { FileProblem, traceOf } from "./plain";
import { isZipkin, readZipkin } from "./zipkin";

/** Larger files are for `spanwise import`. */
export const MOST_BYTES = 256 * 1024 * 1024;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (problem) {
    // OpenTelemetry's file exporter writes one document a line.
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    try {
      const documents = lines.map((line) => object(JSON.parse(line)));
      if (lines.length > 1 && documents.every(isOtlp)) {
        return { resourceSpans: documents.flatMap((one) => one["resourceSpans"] ?? []) };
      }
    } catch {
      // The first problem says more.
    }
    throw new FileProblem(`The file is not JSON: ${(problem as Error).message}`);
  }
}

export function readFile(text: string, name: string): TracePage {
  const file = parsed(text);
  if (isZipkin(file)) return traceOf(readZipkin(file), name);
  const document = object(file);
  if (isOtlp(document)) return traceOf(readOtlp(document), name);
  if (isJaeger(document)) return traceOf(readJaeger(document), name);
  // A trace as this UI downloads it.
  if ("trace_id" in document && Array.isArray(document["spans"]))
    return document as unknown as TracePage;
  throw new FileProblem(
    "The file is neither OTLP, Jaeger's nor Zipkin's JSON: it has no `resourceSpans`, no `data` with `processes`, and is no list of spans.",
  );
}
