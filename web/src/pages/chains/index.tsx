import type { Page } from "../../app/pages";
import { ChainPage } from "./ChainPage";
import { ChainsPage } from "./ChainsPage";
import "./chains.css";

export const chainsPage: Page = {
  path: /^\/chains$/,
  title: "Chains",
  menu: ["/chains", "Chains"],
  show: () => <ChainsPage />,
};

export const chainPage: Page = {
  path: /^\/chains\/([0-9a-f]{16})$/,
  title: "Chain",
  show: ([, id]) => <ChainPage key={id} id={id!} />,
};
