/** How a call ended, as the reporting side saw it. */
import type { Span } from "../api/types";

/** Common reason phrases of HTTP, and gRPC's codes by number. */
const HTTP: Record<number, string> = {
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  411: "Length Required",
  412: "Precondition Failed",
  413: "Content Too Large",
  414: "URI Too Long",
  415: "Unsupported Media Type",
  421: "Misdirected Request",
  422: "Unprocessable Content",
  425: "Too Early",
  426: "Upgrade Required",
  428: "Precondition Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  451: "Unavailable For Legal Reasons",
  499: "Client Closed Request",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};
const GRPC =
  "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED".split(
    " ",
  );

export interface Outcome {
  failed: boolean;
  /** The end of the call was not captured. */
  unknown: boolean;
  /** `404`, or the name for gRPC. Null if there is none. */
  code: string | null;
  /** What went wrong, as text. Null if nothing did. */
  text: string | null;
}

export type Answered = Pick<Span, "status" | "status_code" | "protocol" | "error">;

const isGrpc = (span: Answered) => span.protocol?.toLowerCase().includes("grpc") ?? false;

/**
 * By the OpenTelemetry standard, a server span with status 404 is not an error. A user who looks
 * for a cause wants to see which side gave the answer, so a 4xx answer marks both sides.
 */
export function outcome(span: Answered): Outcome {
  const { status, status_code: number } = span;
  const grpc = isGrpc(span) && number !== undefined && number < GRPC.length;
  const refused = number !== undefined && (grpc ? number > 0 : number >= 400 && number < 600);
  const failed = status === "error" || (refused && status !== "ok");
  const code =
    number === undefined || (grpc && number === 0) ? null : grpc ? GRPC[number]! : String(number);
  return {
    failed,
    unknown: status === "unknown",
    code,
    text: failed ? said(span.error, code, grpc ? undefined : HTTP[number ?? 0]) : null,
  };
}

/** Whether it was not seen what the span's call asked for: its operation is what is known of it. */
export function isNameUnknown(span: Pick<Span, "attributes">): boolean {
  const says = (one: { key: string; value: unknown }) =>
    one.key === "spanwise.operation" && one.value === "unknown";
  return span.attributes?.some(says) ?? false;
}

/** The error's own words, with the code and its meaning where they do not say it. */
function said(error: string | undefined, code: string | null, reason?: string): string {
  // A small number alone is hard to recognize as a code.
  const named = code !== null && /^\d{1,2}$/.test(code) ? `code ${code}` : code;
  const answer = [named, reason].filter(Boolean).join(" ");
  // Both sides of a call are described in the same words.
  if (!error || error === `HTTP ${code}`) return answer || "Failed";
  if (code === null || error.includes(code)) return error;
  return `${answer}: ${error}`;
}
