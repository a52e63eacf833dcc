import type { ReactNode } from "react";
// This order is the order of the pages' styles and of the menu.
import { overviewPage } from "../pages/overview";
import { searchPage } from "../pages/search";
import { tracePage } from "../pages/trace";
import { mapPage } from "../pages/map";
import { livePage } from "../pages/live";
import { causePage } from "../pages/cause";
import { chainPage, chainsPage } from "../pages/chains";
import { dependenciesPage } from "../pages/dependencies";
import { entrancesPage } from "../pages/entrances";
import { sourcesPage } from "../pages/sources";
import { bottlenecksPage } from "../pages/bottlenecks";
import { capacityPage } from "../pages/capacity";
import { journeyPage } from "../pages/journey";
import { watchPage } from "../pages/watch";
import { servicePage } from "../pages/service";
import { statusPage } from "../pages/status";

/** A page of the UI. Its folder has its route, title, menu entry and styles. */
export interface Page {
  /** The path, with a group for each part that the page needs. */
  path: RegExp;
  /** The title of the tab, unless the page sets a more specific one (`useTitle`). */
  title: string;
  /** The entry in the menu: its target and its name. */
  menu?: readonly [to: string, name: string];
  /** When to use it. A page that has this is in the menu of analyses. */
  analysis?: string;
  show: (match: RegExpExecArray) => ReactNode;
}

export const PAGES: readonly Page[] = [
  overviewPage,
  searchPage,
  tracePage,
  mapPage,
  livePage,
  causePage,
  bottlenecksPage,
  chainsPage,
  chainPage,
  dependenciesPage,
  entrancesPage,
  sourcesPage,
  capacityPage,
  watchPage,
  journeyPage,
  servicePage,
  statusPage,
];
