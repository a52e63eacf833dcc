import { lazy } from "react";
import type { Page } from "../../app/pages";
import { Later } from "../../parts/Later";

const WatchPage = lazy(() => import("./WatchPage"));

const when = "you want to be told when something changes, and to see what breaks a rule now.";

export const watchPage: Page = {
  path: /^\/watch$/,
  title: "Watch rules",
  menu: ["/watch", "Watch rules"],
  analysis: when,
  show: () => (
    <Later>
      <WatchPage when={when} />
    </Later>
  ),
};
