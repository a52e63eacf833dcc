import { describe, expect, it } from "vitest";
import { completing, faultIn, fromBuilder, literal, narrowedBy, pointed, quoted } from "./traceql";

const NONE = { service: "", operation: "", status: "", min: "", max: "", attributes: [] };

describe("fromBuilder", () => {
  it("says all that the builder says", () => {
    const attributes = ["http.response.status_code>=500", "url.path~a.b", "x", "!y", "a b=1"];
    const { query } = fromBuilder({
      ...NONE,
      service: 'a"b',
      status: "error",
      min: "5",
      attributes,
    });
    expect(query).toBe(
      '{ resource.service.name = "a\\"b" && status = error && duration >= 5ms && ' +
        '.http.response.status_code >= 500 && .url.path =~ "(?i).*a\\\\.b.*" && ' +
        '.x != nil && .y = nil && ."a b" = 1 }',
    );
  });
  it("asks for the trace's duration if no span is named, and tells what it cannot say", () => {
    expect(fromBuilder({ ...NONE, max: "1s", status: "ok" })).toEqual({
      query: "{ traceDuration <= 1s }",
      lost: ["no span of the trace failed"],
    });
    expect(fromBuilder(NONE).query).toBe("{ }");
  });
});

it("finds the fault's place", () => {
  const fault = faultIn("invalid TraceQL query: line 2, column 3: compare by a single `=`")!;
  expect(fault).toEqual({ line: 2, column: 3, said: "compare by a single `=`" });
  expect(pointed("{\na == 1 }", fault)).toBe("a == 1 }\n  ^");
  expect(faultIn("too many")).toBe(null);
});

describe("completing", () => {
  const at = (query: string) => completing(query, query.length);
  it("completes names in braces and values after operators", () => {
    expect(at("{ resource.ser")).toEqual({ part: "name", from: 2, prefix: "resource.ser" });
    expect(at("{ status = error && ")).toEqual({ part: "name", from: 20, prefix: "" });
    expect(at('{ resource.service.name = "ca')).toEqual({
      part: "value",
      from: 26,
      name: "resource.service.name",
      prefix: "ca",
    });
    expect(at('{ name = "a b')).toBe(null);
    expect(at("")).toBe(null);
  });
});

it("quotes", () => expect(quoted('a\\"\n')).toBe('"a\\\\\\"\\n"'));

it("narrows a selection, and no more than that", () => {
  expect(narrowedBy("{ }", "a = 1")).toBe("{ a = 1 }");
  expect(narrowedBy("{ b = 2 }", "a = 1")).toBe("{ b = 2 && a = 1 }");
  expect(narrowedBy("{ b = 2 || c = 3 }", "a = 1")).toBe("{ (b = 2 || c = 3) && a = 1 }");
  expect(narrowedBy("{ } >> { }", "a = 1")).toBe(null);
  expect(narrowedBy("{ } | rate()", "a = 1")).toBe(null);
});

it("spells a group's value", () => {
  const all = [literal("status", "error"), literal("span.code", "200"), literal("name", "GET /")];
  expect(all).toEqual(["error", "200", '"GET /"']);
});
