import { lazy } from "react";
import type { Page } from "../../app/pages";
import { Later } from "../../parts/Later";

const CapacityPage = lazy(() => import("./CapacityPage"));

const when = "more traffic is coming, and you want to know which service gets how much of it.";

export const capacityPage: Page = {
  path: /^\/capacity$/,
  title: "Capacity",
  menu: ["/capacity", "Capacity"],
  analysis: when,
  show: () => (
    <Later>
      <CapacityPage when={when} />
    </Later>
  ),
};
