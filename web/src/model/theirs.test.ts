import { expect, it } from "vitest";
import { theirs } from "./theirs";

it("knows what nobody operates as a service", () => {
  const kinds = [
    "bash",
    "/usr/bin/curl",
    "chromium",
    "apt-get",
    "dns 10.0.0.2:53",
    "systemd-resolve",
  ];
  expect(kinds.map(theirs)).toEqual([
    "shells",
    "command-line clients",
    "browsers",
    "package managers",
    "name servers",
    "name servers",
  ]);
});

it("leaves services alone, whatever their names resemble", () => {
  const services = [
    "cart",
    "shop",
    "gateway",
    "bashful",
    "pip-service",
    "go-cart",
    "dns-api",
    "postgres",
  ];
  expect(services.map(theirs)).toEqual(services.map(() => null));
});
