/** Explains in words why a span has its parent. */
import type { Span } from "../api/types";
import { formatShare } from "./number";

/** A link of this confidence or more is certain. The model has the same number. */
export const CERTAIN = 0.999;

export type Certainty = "certain" | "guess" | "ambiguous" | "none";

export function certainty(span: Span): Certainty {
  if (span.evidence === "ambiguous") return "ambiguous";
  if (span.parent === null) return "none";
  // A parent that the sender named needs no evidence.
  if (span.confidence === undefined) return span.evidence === undefined ? "certain" : "guess";
  // The column is a 32-bit float: 0.999 may arrive as 0.99899995.
  return span.confidence >= CERTAIN - 1e-6 ? "certain" : "guess";
}

/** A piece of a sentence. Code is set in monospace. */
export interface Piece {
  text: string;
  code?: boolean;
}

export interface Explanation {
  certainty: Certainty;
  /** For example: Child of `POST /checkout` (orders) because … — certain. */
  sentence: Piece[];
  /** A hint for the reader. */
  note: string | null;
}

const plain = (text: string): Piece => ({ text });
const code = (text: string): Piece => ({ text, code: true });

/** The reason for a link: the text after "because". */
function because(span: Span, parent: Span): Piece[] {
  switch (span.evidence) {
    case "tcp_sequence":
      return [
        plain("because both sides carry TCP sequences "),
        code(`${span.request_tcp_seq ?? "?"}/${span.response_tcp_seq ?? "?"}`),
      ];
    case "thread":
      return [
        plain("because the thread that made it had exactly one open request"),
        ...fragment(span),
      ];
    case "task":
      return [
        plain("because the task that made it was serving it, or was started from it"),
        ...fragment(span),
      ];
    case "turn":
      return [
        plain("because its thread had just read something of that request when it made the call"),
        ...fragment(span),
      ];
    case "sole_request":
      return [plain("because the whole process had exactly one open request"), ...fragment(span)];
    case "request_id":
      return [
        plain("because both carry the X-Request-ID "),
        code(span.x_request_id ?? parent.x_request_id ?? "?"),
      ];
    case "trace_header":
      return [
        plain("because a trace header on the wire names it"),
        ...(span.trace_id ? [plain(" (trace "), code(span.trace_id), plain(")")] : []),
      ];
    case "span_context":
      return [plain("because the application's SDK named it as the parent")];
    case "current_span":
      return [plain("because the thread worked in that span when it made the call")];
    case "enclosing":
      return [plain(`because it lies inside the request that ${parent.service} served meanwhile`)];
    case "timing":
      return [plain("by time alone: it lies within the parent and fits its usual course")];
    case undefined:
      return [plain("because the sender named it as the parent")];
    default:
      return [plain(`by ${span.evidence.replaceAll("_", " ")}`)];
  }
}

function fragment(span: Span): Piece[] {
  return span.fragment_id === undefined
    ? []
    : [plain(" (fragment "), code(String(span.fragment_id)), plain(")")];
}

export function explain(span: Span, parent: Span | null): Explanation {
  const sure = certainty(span);
  if (sure === "ambiguous") {
    return {
      certainty: sure,
      sentence: [
        plain("Parent unknown: "),
        plain(
          `${span.service} had requests open, and it is not known which of them made this one, if any`,
        ),
      ],
      note: "Spanwise does not guess here. A trace header, or an SDK in this process, would settle it.",
    };
  }
  if (parent === null && span.parent !== null) {
    return {
      certainty: sure,
      sentence: [plain("Child of span "), code(span.parent), plain(", which is not loaded yet")],
      note: null,
    };
  }
  if (parent === null) {
    if (span.parent_span_id !== undefined) {
      return {
        certainty: sure,
        sentence: [
          plain("Root of this tree, though a header or SDK names the parent "),
          code(span.parent_span_id),
          plain(", which has not arrived"),
        ],
        note: null,
      };
    }
    return {
      certainty: sure,
      sentence: [plain("Root of this trace: nothing that Spanwise saw called it")],
      note: null,
    };
  }
  const verdict =
    sure === "certain"
      ? " — certain"
      : ` — a guess${span.confidence === undefined ? "" : `, ${formatShare(span.confidence)} sure`}`;
  return {
    certainty: sure,
    sentence: [
      plain("Child of "),
      code(parent.operation),
      plain(` (${parent.service}) `),
      ...because(span, parent),
      plain(verdict),
    ],
    note:
      sure === "guess"
        ? "Drawn dashed. Evidence that cannot be accidental is needed for a solid line."
        : null,
  };
}

export function plainText(pieces: readonly Piece[]): string {
  return pieces.map((piece) => piece.text).join("");
}

const CAPTURE_WORDS: Record<string, [short: string, long: string]> = {
  "client-process": ["client", "in the system calls of the calling process"],
  "server-process": ["server", "in the system calls of the called process"],
  "client-nic": ["client nic", "at the network interface of the calling host"],
  "server-nic": ["server nic", "at the network interface of the called host"],
  jvm: ["jvm", "from inside the application, by the JVM agent"],
  app: ["sdk", "as the application itself reports it (SDK)"],
};

/** Where a span was captured: a short form for a tag, and the full form. */
export function captureWords(capture: string): [short: string, long: string] {
  return CAPTURE_WORDS[capture] ?? [capture, capture];
}
