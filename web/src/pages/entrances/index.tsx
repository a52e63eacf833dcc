import { lazy } from "react";
import type { Page } from "../../app/pages";
import { Later } from "../../parts/Later";

const EntrancesPage = lazy(() => import("./EntrancesPage"));

const when = "you want to know where load comes in, and whether it grows.";

export const entrancesPage: Page = {
  path: /^\/entrances$/,
  title: "Entrances",
  menu: ["/entrances", "Entrances"],
  analysis: when,
  show: () => (
    <Later>
      <EntrancesPage when={when} />
    </Later>
  ),
};
