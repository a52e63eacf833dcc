import { lazy } from "react";
import type { Page } from "../../app/pages";
import { Later } from "../../parts/Later";

const BottlenecksPage = lazy(() => import("./BottlenecksPage"));

const when = "requests work but are slow, and you want to know where their time goes.";

export const bottlenecksPage: Page = {
  path: /^\/bottlenecks$/,
  title: "Bottlenecks",
  menu: ["/bottlenecks", "Bottlenecks"],
  analysis: when,
  show: () => (
    <Later>
      <BottlenecksPage when={when} />
    </Later>
  ),
};
