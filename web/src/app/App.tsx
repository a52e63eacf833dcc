import { useServices } from "../api/queries";
import { Blank } from "../parts/Blank";
import { PAGES } from "./pages";
import { introduce } from "./palette";
import { Link, usePlace } from "./router";
import { useTitle } from "./title";
import { TopBar } from "./TopBar";
import { useZone } from "./zone";

export function App() {
  const { path } = usePlace();
  const services = useServices();
  // Whatever tells a time is told anew.
  useZone();
  if (services.data) introduce(services.data.services.map((service) => service.name));
  return (
    <>
      <TopBar />
      {services.isPending ? (
        // One moment, once: colours come from all services, not from the first trace seen.
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

/** The page's own title. Its effect runs before those of the page, which may set another. */
function Title({ text }: { text: string }) {
  useTitle(text);
  return null;
}

function Nowhere() {
  useTitle("No such page");
  return (
    <main>
      <Blank title="There is no such page" whole>
        <Link to="/">Search for traces</Link>
      </Blank>
    </main>
  );
}
