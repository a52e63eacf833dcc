import { lazy, Suspense } from "react";
import type { Page } from "../../app/pages";
import { Blank } from "../../parts/Blank";
import "./map.css";

// Loaded only when the page is opened.
const MapPage = lazy(() => import("./MapPage"));

export const mapPage: Page = {
  path: /^\/map$/,
  title: "Map",
  menu: ["/map", "Map"],
  show: () => (
    <Suspense
      fallback={
        <main>
          <Blank title="Loading the map" busy whole />
        </main>
      }
    >
      <MapPage />
    </Suspense>
  ),
};
