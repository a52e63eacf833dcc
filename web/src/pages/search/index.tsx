import type { Page } from "../../app/pages";
import { SearchPage } from "./SearchPage";
import "./search.css";

export const searchPage: Page = {
  path: /^\/$/,
  title: "Search",
  menu: ["/", "Search"],
  show: () => <SearchPage />,
};
