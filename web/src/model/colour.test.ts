import { describe, expect, it } from "vitest";
import { assign, hexColour, oklchToHex, SLOTS } from "./colour";

describe("assign", () => {
  const shop = ["nginx", "storefront", "catalog", "cart", "orders", "stock", "payments", "ledger"];

  it("gives every service its own slot, whatever the order", () => {
    const slots = assign(new Map(), shop);
    expect(new Set(slots.values()).size).toBe(shop.length);
    expect(assign(new Map(), [...shop].reverse())).toEqual(slots);
  });

  it("gives a small shop colours that lie apart", () => {
    const hexes = [...assign(new Map(), shop).values()].map((slot) => hexColour(slot, "light"));
    const rgb = hexes.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
    for (const [at, one] of rgb.entries()) {
      for (const other of rgb.slice(at + 1)) {
        expect(Math.hypot(...one.map((value, channel) => value - other[channel]!))).toBeGreaterThan(
          40,
        );
      }
    }
  });

  it("never moves a service that has a slot", () => {
    const before = assign(new Map(), shop);
    const after = assign(before, ["aaa", "bbb", ...shop]);
    for (const name of shop) expect(after.get(name)).toBe(before.get(name));
  });

  it("shares slots only when all are taken", () => {
    const many = Array.from({ length: SLOTS + 5 }, (_, index) => `service-${index}`);
    const slots = assign(new Map(), many);
    expect(new Set(slots.values()).size).toBe(SLOTS);
    expect(slots.size).toBe(many.length);
  });
});

it("converts OKLCH as CSS does", () => {
  expect(oklchToHex(1, 0, 0)).toBe("#ffffff");
  expect(oklchToHex(0, 0, 0)).toBe("#000000");
  // CSS Color 4's own example of sRGB red.
  expect(oklchToHex(0.62796, 0.25768, 29.234)).toBe("#ff0000");
});

it("keeps slots apart in both themes", () => {
  for (const theme of ["light", "dark"] as const) {
    const all = Array.from({ length: SLOTS }, (_, slot) => hexColour(slot, theme));
    expect(new Set(all).size).toBe(SLOTS);
  }
});
