import { afterEach, expect, it, vi } from "vitest";
import { get } from "./client";

afterEach(() => vi.unstubAllGlobals());

it("says with every call that it comes from the UI, and leaves out what is not asked", async () => {
  const fetch = vi.fn(() => Promise.resolve(Response.json({ traces: [] })));
  vi.stubGlobal("fetch", fetch);
  await get("search", { service: "a b", operation: "", attribute: ["a=1", "b"], key: null });
  const [url, options] = fetch.mock.calls[0] as unknown as [string, RequestInit];
  expect(url).toBe("/api/v1/search?service=a+b&attribute=a%3D1&attribute=b");
  expect(new Headers(options.headers).get("Spanwise-Request")).toBe("ui");
});

it("passes on what the server says was wrong", async () => {
  const problem = { title: "Invalid", status: 400, detail: "`attribute` is `=`" };
  vi.stubGlobal("fetch", () => Promise.resolve(Response.json(problem, { status: 400 })));
  await expect(get("search", {})).rejects.toMatchObject({
    status: 400,
    title: "Invalid",
    message: "`attribute` is `=`",
  });
});
