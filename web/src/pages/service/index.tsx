import type { Page } from "../../app/pages";
import { ServicePage } from "./ServicePage";
import "./service.css";

export const servicePage: Page = {
  path: /^\/service\/([^/]+)$/,
  title: "Service",
  show: ([, name]) => <ServicePage key={name} name={decoded(name!)} />,
};

/** A name in an address that somebody typed may not be encoded. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
