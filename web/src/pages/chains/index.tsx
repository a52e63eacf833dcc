import type { Page } from "../../app/pages";
import { ChainPage } from "./ChainPage";
import { ChainsPage } from "./ChainsPage";
import "./chains.css";

const when =
  "you want to know the usual ways of a request through the services, and what they cost.";

export const chainsPage: Page = {
  path: /^\/chains$/,
  title: "Chains",
  menu: ["/chains", "Chains"],
  analysis: when,
  show: () => <ChainsPage when={when} />,
};

export const chainPage: Page = {
  path: /^\/chains\/([0-9a-f]{16})$/,
  title: "Chain",
  show: ([, id]) => <ChainPage key={id} id={id!} />,
};
