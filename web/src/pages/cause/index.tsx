import type { Page } from "../../app/pages";
import { CausePage } from "./CausePage";
import "./cause.css";

export const causePage: Page = {
  path: /^\/causes$/,
  title: "Causes",
  menu: ["/causes", "Causes"],
  analysis: "something is slow or fails, and you do not know who is to blame.",
  show: () => <CausePage />,
};
