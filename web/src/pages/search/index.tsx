import type { Page } from "../../app/pages";
import { SearchPage } from "./SearchPage";

export const searchPage: Page = { path: /^\/$/, menu: ["/", "Search"], show: () => <SearchPage /> };
