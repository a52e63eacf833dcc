import type { Page } from "../../app/pages";
import { TracePage } from "./TracePage";

export const tracePage: Page = {
  path: /^\/trace\/([0-9a-fA-F]+)$/,
  show: ([, id]) => <TracePage key={id} id={id!.toLowerCase()} />,
};
