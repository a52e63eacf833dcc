import { expect, test } from "vitest";
import { namespacesOf } from "./namespaces";

const series = (service: string, own: string, kubernetes: string) => ({
  labels: [
    { key: "resource.service.name", value: { stringValue: service } },
    { key: "resource.service.namespace", value: { stringValue: own } },
    { key: "resource.k8s.namespace.name", value: { stringValue: kubernetes } },
  ],
  value: 1,
});

test("a service's own namespace counts before that of Kubernetes, and nil is none", () => {
  const found = namespacesOf({
    series: [
      series("cart", "shop", "prod"),
      series("mail", "nil", "prod"),
      series("x", "nil", "nil"),
    ],
  });
  expect([...found]).toEqual([
    ["cart", "shop"],
    ["mail", "prod"],
  ]);
});
