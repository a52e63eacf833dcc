import { describe, expect, it } from "vitest";
import { assign, difference, hexColour, oklchToHex, ownSlot, SLOTS } from "./colour";

const shop = ["nginx", "storefront", "catalog", "cart", "orders", "stock", "payments", "ledger"];
const many = (count: number) => Array.from({ length: count }, (_, index) => `service-${index}`);

/** The smallest difference between any two slots. */
function closest(slots: Iterable<number>): number {
  const all = [...slots];
  let least = Infinity;
  for (const [at, one] of all.entries()) {
    for (const other of all.slice(at + 1)) least = Math.min(least, difference(one, other));
  }
  return least;
}

describe("assign", () => {
  it("asks nothing but the names: not their order, not what came before", () => {
    const slots = assign(shop);
    expect(assign([...shop].reverse())).toEqual(slots);
    expect(assign([...shop, ...shop])).toEqual(slots);
  });

  it("gives services that are seen together colours that are told apart", () => {
    expect(closest(assign(shop).values())).toBeGreaterThanOrEqual(0.079);
    expect(closest(assign(many(20)).values())).toBeGreaterThanOrEqual(0.055);
    expect(closest(assign(many(40)).values())).toBeGreaterThanOrEqual(0.025);
  });

  it("keeps a service's own colour where nothing looks like it", () => {
    expect(assign(["cart"]).get("cart")).toBe(ownSlot("cart"));
    const alike = many(1000).find((name) => name !== "cart" && ownSlot(name) === ownSlot("cart"))!;
    const together = assign(["cart", alike]);
    expect(together.get("cart")).not.toBe(together.get(alike));
    expect([...together.values()]).toContain(ownSlot("cart"));
  });

  it("starts from the colours of a larger view", () => {
    const all = assign(many(90));
    const few = assign(many(6), (name) => all.get(name)!);
    expect(closest(few.values())).toBeGreaterThanOrEqual(0.08);
  });

  it("keeps the colours of a larger view where they are told apart", () => {
    const demo = [...shop, "redis", "postgresql", "customers", "psql", "shop manager"];
    const all = assign(demo);
    for (let at = 0; at < demo.length; at++) {
      const few = demo.filter((_, index) => (index + at) % 3 !== 0);
      const slots = assign(few, (name) => all.get(name)!);
      for (const name of few) expect(slots.get(name), name).toBe(all.get(name));
    }
  });

  it("gives no two services one colour before all are taken", () => {
    expect(new Set(assign(many(SLOTS)).values()).size).toBe(SLOTS);
    expect(assign(many(2000)).size).toBe(2000);
  });
});

it("converts OKLCH as CSS does", () => {
  expect(oklchToHex(1, 0, 0)).toBe("#ffffff");
  expect(oklchToHex(0, 0, 0)).toBe("#000000");
  // The example of sRGB red in CSS Color 4.
  expect(oklchToHex(0.62796, 0.25768, 29.234)).toBe("#ff0000");
});

it("keeps slots apart in both themes", () => {
  for (const theme of ["light", "dark"] as const) {
    const all = Array.from({ length: SLOTS }, (_, slot) => hexColour(slot, theme));
    expect(new Set(all).size).toBe(SLOTS);
  }
});
