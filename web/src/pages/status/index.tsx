import type { Page } from "../../app/pages";
import { StatusPage } from "./StatusPage";

export const statusPage: Page = {
  path: /^\/status$/,
  menu: ["/status", "Status"],
  show: () => <StatusPage />,
};
