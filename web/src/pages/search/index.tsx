import type { Page } from "../../app/pages";
import { SearchPage } from "./SearchPage";
import "./search.css";
import "./query.css";

export const searchPage: Page = {
  path: /^\/search$/,
  title: "Search",
  menu: ["/search", "Search"],
  show: () => <SearchPage />,
};
