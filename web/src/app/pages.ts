import type { ReactNode } from "react";
import { mapPage } from "../pages/map";
import { searchPage } from "../pages/search";
import { statusPage } from "../pages/status";
import { tracePage } from "../pages/trace";

/** A page of the UI; its folder says all of it. */
export interface Page {
  /** The path, and what of it the page wants to know. */
  path: RegExp;
  /** Its entry in the menu: where it leads, and its name. */
  menu?: readonly [to: string, name: string];
  show: (match: RegExpExecArray) => ReactNode;
}

export const PAGES: readonly Page[] = [searchPage, tracePage, mapPage, statusPage];
