import { expect, test } from "vitest";
import { clicked, ordered, orderOf, orderText } from "./rows";

const rows = [
  { name: "b", calls: 2, p95: null },
  { name: "a", calls: 10, p95: 3 },
  { name: "c", calls: 2, p95: 9 },
];

test("figures go down, names up, equal ones stay as they were", () => {
  const names = (list: readonly { name: string }[]) => list.map((row) => row.name).join("");
  expect(names(ordered(rows, (row) => row.calls, false))).toBe("abc");
  expect(names(ordered(rows, (row) => row.calls, true))).toBe("bca");
  expect(names(ordered(rows, (row) => row.name, false))).toBe("abc");
  expect(names(ordered(rows, (row) => row.name, true))).toBe("cba");
});

test("what is not known comes last in both directions", () => {
  const last = (reversed: boolean) => ordered(rows, (row) => row.p95, reversed).at(-1)!.name;
  expect(last(false)).toBe("b");
  expect(last(true)).toBe("b");
});

test("an address names a column and a direction, or nothing", () => {
  const columns = ["calls", "p95"];
  expect(orderOf("-calls", columns)).toEqual({ column: "calls", reversed: true });
  expect(orderOf("nonsense", columns)).toBeNull();
  expect(orderOf(null, columns)).toBeNull();
  expect(orderText({ column: "p95", reversed: true })).toBe("-p95");
});

test("a second click turns the order round, a third one back", () => {
  const once = clicked(null, "calls");
  const twice = clicked(once, "calls");
  expect([once.reversed, twice.reversed, clicked(twice, "calls").reversed]).toEqual([
    false,
    true,
    false,
  ]);
  expect(clicked(twice, "p95")).toEqual({ column: "p95", reversed: false });
});
