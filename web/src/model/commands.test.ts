import { expect, it } from "vitest";
import { distance, fitting } from "./commands";

const all = ["Search", "Status", "Service cart", "Service orders"].map((name) => ({
  name,
  note: "",
}));

it("finds by a part, or by letters in their order", () => {
  expect(fitting(all, "cart", 9).map((one) => one.name)).toEqual(["Service cart"]);
  expect(fitting(all, "sord", 9).map((one) => one.name)).toEqual(["Service orders"]);
  expect(fitting(all, "", 2).map((one) => one.name)).toEqual(["Search", "Status"]);
  expect(distance("Status", "tz")).toBe(null);
});

it("puts a part before scattered letters", () => {
  expect(fitting(all, "se", 9)[0]!.name).toBe("Search");
  expect(distance("Service cart", "cart")!).toBeLessThan(distance("Service cart", "srvc")!);
});
