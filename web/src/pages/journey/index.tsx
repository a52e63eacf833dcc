import type { Page } from "../../app/pages";
import { JourneyPage } from "./JourneyPage";
import "./journey.css";

export const journeyPage: Page = {
  path: /^\/journey$/,
  title: "Journey",
  menu: ["/journey", "Journey"],
  analysis:
    "you have the number of an order or the like, and want to see what happened to it, over minutes or days.",
  show: () => <JourneyPage />,
};
