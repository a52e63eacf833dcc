import type { ReactNode } from "react";
// The order of their styles and of the menu.
import { searchPage } from "../pages/search";
import { tracePage } from "../pages/trace";
import { mapPage } from "../pages/map";
import { statusPage } from "../pages/status";

/** A page of the UI. Its folder has its route, title, menu entry and styles. */
export interface Page {
  /** The path, with groups for the parts that the page needs. */
  path: RegExp;
  /** The title of the tab, unless the page sets a more specific one (`useTitle`). */
  title: string;
  /** The entry in the menu: where it leads, and its name. */
  menu?: readonly [to: string, name: string];
  show: (match: RegExpExecArray) => ReactNode;
}

export const PAGES: readonly Page[] = [searchPage, tracePage, mapPage, statusPage];
