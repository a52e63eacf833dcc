import { expect, it } from "vitest";
import { asked, narrowed, question } from "./question";

it("takes an empty address for the last hour", () => {
  const a = asked(new URLSearchParams());
  expect(question(a)).toMatchObject({ start: "-1h", end: "now", limit: "100", service: "" });
  expect(narrowed(a)).toBe(false);
});

it("spells durations as the API does, and leaves out what is none", () => {
  const a = asked(
    new URLSearchParams("min=1.5 s&max=soon&attribute=a=b&attribute=c=d=e&sort=wrong"),
  );
  expect(question(a)).toMatchObject({
    min_duration: "1.5s",
    max_duration: "",
    attribute: ["a=b", "c=d=e"],
  });
  expect(a.sort).toBe("newest");
  expect(narrowed(a)).toBe(true);
});
