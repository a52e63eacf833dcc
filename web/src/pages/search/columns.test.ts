import { expect, it } from "vitest";
import { COLUMNS, columnsOf, columnsText, toggled } from "./columns";

it("shows the usual columns without a word in the address", () => {
  const usual = columnsOf(null);
  expect(usual).toContain("services");
  expect(usual).not.toContain("id");
  expect(columnsText(usual)).toBeNull();
});

it("keeps any choice in the address, in the order of the list", () => {
  for (const [id] of COLUMNS) {
    const other = toggled(columnsOf(null), id);
    expect(other.includes(id)).toBe(!columnsOf(null).includes(id));
    expect([...columnsOf(columnsText(other))].sort()).toEqual([...other].sort());
  }
  expect(columnsText(["id", "services"])).toBe("services,id");
  expect(columnsOf("id,services")).toEqual(["services", "id"]);
});

it("can hide all of them, and takes what it does not know for nothing", () => {
  expect(columnsOf(columnsText([]))).toEqual([]);
  expect(columnsOf("colour,id")).toEqual(["id"]);
  expect(columnsOf("colour")).toEqual(columnsOf(null));
});
