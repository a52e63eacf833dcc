import { lazy } from "react";
import type { Page } from "../../app/pages";
import { Later } from "../../parts/Later";

const DependenciesPage = lazy(() => import("./DependenciesPage"));

const when = "you want to know what breaks if a service fails, and what goes on without it.";

export const dependenciesPage: Page = {
  path: /^\/dependencies$/,
  title: "Dependencies",
  menu: ["/dependencies", "Dependencies"],
  analysis: when,
  show: () => (
    <Later>
      <DependenciesPage when={when} />
    </Later>
  ),
};
