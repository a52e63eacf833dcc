import { expect, it } from "vitest";
import { readCondition, shownCondition, spelled, typing } from "./condition";

it.each([
  ["a=b", "a", "=", "b"],
  [" http.status_code >= 500 ", "http.status_code", ">=", "500"],
  ["a!=b", "a", "!=", "b"],
  ["a<-1.5e3", "a", "<", "-1.5e3"],
  ["a<=0", "a", "<=", "0"],
  ["a>.5", "a", ">", ".5"],
  ["url.path~cart/", "url.path", "~", "cart/"],
  ["a=b=c", "a", "=", "b=c"],
  ["q=a < b ~ c", "q", "=", "a < b ~ c"],
  ["db.system", "db.system", "exists", ""],
  ["!error.type", "error.type", "absent", ""],
  ["a=", "a", "=", ""],
  ["user agent=x", "user agent", "=", "x"],
  ["k8s.pod/name[0]=x", "k8s.pod/name[0]", "=", "x"],
])("%s is understood", (text, key, operator, value) => {
  expect(readCondition(text)).toEqual({ key, operator, value });
});

it.each([
  ["", "Nothing is named"],
  ["=5", "Before “=”"],
  [">= 5", "Before “>=”"],
  ["a~", "value is missing after “~”"],
  ["a>", "value is missing after “>”"],
  ["a > fast", "“fast” is none"],
  ["a>5ms", "“5ms” is none"],
  ["errors of checkout", "no name of an attribute"],
  ["!of checkout", "no name of an attribute"],
  ["!a=b", "a!=value"],
  ["a==b", "a=b"],
  ["a=~b", "a~b"],
  ["a!~b", "not known"],
])("%j is not, and it is said why", (text, why) => {
  const read = readCondition(text);
  expect("problem" in read && read.problem).toContain(why);
});

it("spells a condition as the API takes it, however it was typed", () => {
  for (const [typed, api] of [
    ["a = b c", "a=b c"],
    ["a >= 5", "a>=5"],
    ["! a", "!a"],
    ["a", "a"],
  ] as const) {
    const read = readCondition(typed);
    expect("problem" in read ? null : spelled(read)).toBe(api);
  }
});

it("shows a condition in words, and what is none as it stands", () => {
  expect(shownCondition("a>=5")).toBe("a >= 5");
  expect(shownCondition("a")).toBe("a exists");
  expect(shownCondition("!a")).toBe("no a");
  expect(shownCondition("a~b")).toBe("a contains b");
  expect(shownCondition("a=")).toBe("a = (empty)");
  expect(shownCondition("=b")).toBe("=b");
});

it("knows what is being typed", () => {
  expect(typing("")).toEqual({ part: "key", before: "", prefix: "" });
  expect(typing("http.")).toEqual({ part: "key", before: "", prefix: "http." });
  expect(typing("!htt")).toEqual({ part: "key", before: "!", prefix: "htt" });
  expect(typing("a=")).toEqual({ part: "value", before: "a=", key: "a", prefix: "" });
  expect(typing("a != x")).toEqual({ part: "value", before: "a!=", key: "a", prefix: "x" });
  expect(typing("a>5")).toBeNull();
  expect(typing("=5")).toBeNull();
});
