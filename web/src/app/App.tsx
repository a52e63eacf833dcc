import { lazy, Suspense, useEffect } from "react";
import { useServices } from "../api/queries";
import { SearchPage } from "../pages/search/SearchPage";
import { StatusPage } from "../pages/status/StatusPage";
import { TracePage } from "../pages/trace/TracePage";
import { Blank } from "../parts/Blank";
import { introduce, introduced } from "./palette";
import { Link, usePlace } from "./router";
import { TopBar } from "./TopBar";

// The map brings a WebGL renderer along; only its visitors load it.
const MapPage = lazy(() => import("../pages/map/MapPage"));

const TITLES: Record<string, string> = { "/": "Search", "/map": "Map", "/status": "Status" };

export function App() {
  const { path } = usePlace();
  const services = useServices();
  // In the order of their names, so that all browsers agree on colours.
  if (services.data) introduce(services.data.services.map((service) => service.name));
  useEffect(() => {
    document.title = `${TITLES[path] ?? "Trace"} · Spanwise`;
  }, [path]);
  return (
    <>
      <TopBar />
      {services.isPending && !introduced() ? (
        // One moment, once: colours come from all services, not from the first trace seen.
        <Blank title="Loading" busy />
      ) : (
        <Page path={path} />
      )}
    </>
  );
}

function Page({ path }: { path: string }) {
  if (path === "/") return <SearchPage />;
  if (path === "/status") return <StatusPage />;
  if (path === "/map") {
    return (
      <Suspense fallback={<Blank title="Loading the map" busy />}>
        <MapPage />
      </Suspense>
    );
  }
  const trace = /^\/trace\/([0-9a-fA-F]+)$/.exec(path);
  if (trace) return <TracePage key={trace[1]} id={trace[1]!.toLowerCase()} />;
  return (
    <Blank title="There is no such page">
      <Link to="/">Search for traces</Link>
    </Blank>
  );
}
