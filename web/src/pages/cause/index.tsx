import type { Page } from "../../app/pages";
import { CausePage } from "./CausePage";
import "./cause.css";

export const causePage: Page = {
  path: /^\/causes$/,
  title: "Causes",
  menu: ["/causes", "Causes"],
  show: () => <CausePage />,
};
