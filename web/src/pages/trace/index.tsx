import type { Page } from "../../app/pages";
import { TracePage } from "./TracePage";
import "./trace.css";
import "./details.css";

export const tracePage: Page = {
  title: "Trace",
  path: /^\/trace\/([0-9a-fA-F]+)$/,
  show: ([, id]) => <TracePage key={id} id={id!.toLowerCase()} />,
};
