import { expect, it } from "vitest";
import { isNameUnknown, outcome } from "./outcome";

it("marks the side that answered 4xx, which by the standard is no error", () => {
  const server = outcome({ status: "unset", status_code: 404, protocol: "http" });
  expect(server).toEqual({ failed: true, unknown: false, code: "404", text: "404 Not Found" });
  expect(outcome({ status: "error", status_code: 404, error: "404 Not Found" }).text).toBe(
    "404 Not Found",
  );
});

it("leaves alone what the application calls good, and what is", () => {
  expect(outcome({ status: "ok", status_code: 404 }).failed).toBe(false);
  expect(outcome({ status: "unset", status_code: 304 })).toMatchObject({
    failed: false,
    code: "304",
  });
  expect(outcome({ status: "unset" })).toMatchObject({ failed: false, code: null, text: null });
});

it("names codes of gRPC", () => {
  const call = { protocol: "grpc", status: "unset" } as const;
  expect(outcome({ ...call, status_code: 5 })).toMatchObject({ failed: true, code: "NOT_FOUND" });
  expect(outcome({ ...call, status_code: 0 })).toMatchObject({ failed: false, code: null });
});

it("says code and text, none twice", () => {
  const words = (error: string | undefined, status_code?: number) =>
    outcome({ status: "error", error, ...(status_code ? { status_code } : {}) } as never).text;
  expect(words("CardDeclined", 402)).toBe("402 Payment Required: CardDeclined");
  expect(words("HTTP 404", 404)).toBe("404 Not Found");
  expect(words("CardDeclined")).toBe("CardDeclined");
  expect(words(undefined, 418)).toBe("418");
  expect(words(undefined, 13)).toBe("code 13");
  expect(words(undefined)).toBe("Failed");
});

it("says where the name was not seen", () => {
  const says = (key: string) => ({
    attributes: [{ key, type: "string" as const, value: "unknown" }],
  });
  expect(isNameUnknown(says("spanwise.operation"))).toBe(true);
  expect(isNameUnknown(says("spanwise.status"))).toBe(false);
  expect(isNameUnknown({})).toBe(false);
});

it("does not take what was not seen for good", () => {
  expect(outcome({ status: "unknown" })).toMatchObject({ failed: false, unknown: true });
});
