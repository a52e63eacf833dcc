import type { Page } from "../../app/pages";
import { FilePage } from "./FilePage";
import { TracePage } from "./TracePage";
import "./trace.css";
import "./details.css";
import "./views.css";

export const tracePage: Page = {
  title: "Trace",
  path: /^\/trace\/(?:file|([0-9a-fA-F]+))$/,
  show: ([, id]) =>
    id === undefined ? <FilePage /> : <TracePage key={id} id={id.toLowerCase()} />,
};
