import type { Page } from "../../app/pages";
import { StatusPage } from "./StatusPage";
import "./status.css";

export const statusPage: Page = {
  path: /^\/status$/,
  title: "Status",
  menu: ["/status", "Status"],
  show: () => <StatusPage />,
};
