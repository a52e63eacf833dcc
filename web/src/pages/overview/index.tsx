import type { Page } from "../../app/pages";
import { OverviewPage } from "./OverviewPage";
import "./overview.css";

export const overviewPage: Page = {
  path: /^\/$/,
  title: "Overview",
  menu: ["/", "Overview"],
  show: () => <OverviewPage />,
};
