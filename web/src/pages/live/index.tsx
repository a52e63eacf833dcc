import { lazy } from "react";
import type { Page } from "../../app/pages";
import { Later } from "../../parts/Later";
import "./live.css";

const LivePage = lazy(() => import("./LivePage"));

export const livePage: Page = {
  path: /^\/live$/,
  title: "Live",
  menu: ["/live", "Live"],
  show: () => (
    <Later>
      <LivePage />
    </Later>
  ),
};
