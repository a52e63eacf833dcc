import { expect, it } from "vitest";
import { asked, narrowed, question } from "./question";

it("takes an empty address for the last hour, newest first", () => {
  const a = asked(new URLSearchParams());
  expect(question(a)).toMatchObject({
    start: "-1h",
    end: "now",
    limit: "100",
    service: "",
    sort: "newest",
  });
  expect(narrowed(a)).toBe(false);
});

it("spells durations as the API does, and leaves out what is none", () => {
  const a = asked(
    new URLSearchParams("min=1.5 s&max=soon&attribute=a=b&attribute=c=d=e&attribute==x&sort=wrong"),
  );
  expect(question(a)).toMatchObject({
    min_duration: "1.5s",
    max_duration: "",
    attribute: ["a=b", "c=d=e"],
    sort: "newest",
  });
  expect(narrowed(a)).toBe(true);
});

it("asks the server for the order", () => {
  for (const sort of ["newest", "slowest", "errors", "largest"] as const) {
    expect(question(asked(new URLSearchParams({ sort }))).sort).toBe(sort);
  }
});
