import { lazy } from "react";
import type { Page } from "../../app/pages";
import { Later } from "../../parts/Later";

const SourcesPage = lazy(() => import("./SourcesPage"));

const when =
  "a service or a database is busy, and you want to know who causes its calls, at any distance.";

export const sourcesPage: Page = {
  path: /^\/sources$/,
  title: "Sources",
  menu: ["/sources", "Sources"],
  analysis: when,
  show: () => (
    <Later>
      <SourcesPage when={when} />
    </Later>
  ),
};
