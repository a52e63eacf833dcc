import { useServices } from "../api/queries";
import { Blank } from "../parts/Blank";
import { Commands } from "./Commands";
import { DropZone } from "./DropZone";
import { PAGES } from "./pages";
import { introduce } from "./palette";
import { Link, usePlace } from "./router";
import { useTitle } from "./title";
import { TopBar } from "./TopBar";
import { useZone } from "./zone";

export function App() {
  const { path } = usePlace();
  const services = useServices();
  // Renders all times again when the time zone changes.
  useZone();
  if (services.data) introduce(services.data.services.map((service) => service.name));
  return (
    <>
      <TopBar />
      <DropZone />
      <Commands />
      {services.isPending ? (
        // Shown once, for a moment. Colours are assigned from all services, so the list of services
        // has to be loaded first.
        <main>
          <Blank title="Loading" busy whole />
        </main>
      ) : (
        <Shown path={path} />
      )}
    </>
  );
}

function Shown({ path }: { path: string }) {
  for (const page of PAGES) {
    const match = page.path.exec(path);
    if (match) {
      return (
        <>
          <Title text={page.title} />
          {page.show(match)}
        </>
      );
    }
  }
  return <Nowhere />;
}

/**
 * The page's default title. This effect runs before the effects of the page, which may set a
 * more specific title.
 */
function Title({ text }: { text: string }) {
  useTitle(text);
  return null;
}

function Nowhere() {
  useTitle("No such page");
  return (
    <main>
      <Blank title="There is no such page" whole>
        <Link to="/search">Search for traces</Link>
      </Blank>
    </main>
  );
}
