import { describe, expect, it } from "vitest";
import type { Span } from "../api/types";
import { certainty, explain, plainText } from "./evidence";

const base: Span = {
  span_id: "1",
  parent: "0",
  start_unix_nano: "0",
  duration_nano: "1",
  service: "orders",
  operation: "POST /checkout",
  kind: "server",
  status: "unset",
  capture: "server-process",
  depth: 1,
  self_nano: "0",
  children: [],
};
const parent: Span = { ...base, span_id: "0", parent: null };

describe("certainty", () => {
  it("takes a 32-bit 0.999 for certain, and 0.99 for a guess", () => {
    expect(certainty({ ...base, evidence: "thread", confidence: Math.fround(0.999) })).toBe(
      "certain",
    );
    expect(certainty({ ...base, evidence: "thread", confidence: 0.99 })).toBe("guess");
  });
  it("takes evidence without a figure for a guess", () => {
    expect(certainty({ ...base, evidence: "timing" })).toBe("guess");
  });
});

describe("explain", () => {
  it("says which sequences join a hop", () => {
    const text = plainText(
      explain(
        {
          ...base,
          evidence: "tcp_sequence",
          confidence: 1,
          request_tcp_seq: 123,
          response_tcp_seq: 456,
        },
        parent,
      ).sentence,
    );
    expect(text).toBe(
      "Child of POST /checkout (orders) because both sides carry TCP sequences 123/456 — certain",
    );
  });

  it("says how sure a guess is", () => {
    const said = explain({ ...base, evidence: "sole_request", confidence: 0.9 }, parent);
    expect(plainText(said.sentence)).toMatch(/exactly one open request — a guess, 90% sure$/);
    expect(said.note).not.toBeNull();
  });

  it("says that nothing was guessed", () => {
    const said = explain({ ...base, parent: null, evidence: "ambiguous" }, null);
    expect(said.certainty).toBe("ambiguous");
    expect(plainText(said.sentence)).toContain("which of them");
  });

  it("tells a root from a span whose parent has not arrived", () => {
    expect(plainText(explain({ ...base, parent: null }, null).sentence)).toMatch(
      /^Root of this trace/,
    );
    expect(
      plainText(explain({ ...base, parent: null, parent_span_id: "abc" }, null).sentence),
    ).toContain("abc, which has not arrived");
  });

  it("does not call a span a root whose parent lies on another page", () => {
    expect(plainText(explain({ ...base, evidence: "thread", confidence: 1 }, null).sentence)).toBe(
      "Child of span 0, which is not loaded yet",
    );
  });
});
