/** The main paths by the keyboard alone: what has the focus can be seen, and is never lost. */
import { must } from "./harness.mjs";

/** More stops than any page has before what is looked for. */
const MOST_STOPS = 400;

export async function keyboardChecks(t) {
  const { page } = t;
  const press = (key) => page.keyboard.press(key);

  /** What has the focus, and how that is visible. */
  const focus = () =>
    page.evaluate(() => {
      const at = document.activeElement;
      if (at === null || at === document.body) return null;
      const style = getComputedStyle(at);
      const box = at.getBoundingClientRect();
      const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
      return {
        what: `${at.tagName.toLowerCase()} "${(at.getAttribute("aria-label") ?? at.textContent ?? "").trim().slice(0, 40)}"`,
        visible: outlined && style.outlineColor !== "rgba(0, 0, 0, 0)",
        opaque: Number(style.opacity) > 0,
        inside:
          box.width > 0 &&
          box.height > 0 &&
          box.bottom > 0 &&
          box.right > 0 &&
          box.top < innerHeight &&
          box.left < innerWidth,
      };
    });

  /** Waits until an element that fits the selector has the focus, and checks that it is seen. */
  const focused = async (selector) => {
    try {
      await page.waitForFunction((wanted) => document.activeElement?.matches(wanted), selector);
    } catch {
      const at = await focus();
      throw new Error(`${selector} has no focus, but ${at === null ? "nothing" : at.what}`);
    }
    await seen();
  };
  const seen = async () => {
    const at = await focus();
    must(at !== null, "nothing has the focus");
    must(at.visible && at.opaque, `the focus on ${at.what} is not visible`);
    must(at.inside, `${at.what} has the focus and is outside of the window`);
  };

  /** Presses a key until an element that fits the selector has the focus. Every stop is seen. */
  const reach = async (selector, key = "Tab") => {
    await page.waitForSelector(selector);
    for (let stops = 0; stops < MOST_STOPS; stops++) {
      await press(key);
      if ((await focus()) === null) continue; // Between the last element and the first.
      await seen();
      if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
    }
    throw new Error(`${key} does not reach ${selector}`);
  };
  const choose = async (selector) => {
    await reach(selector);
    await press("Enter");
  };
  const at = (path) => page.waitForURL((url) => url.pathname === path);
  const query = (fits) => page.waitForURL((url) => fits(url.searchParams));

  /** Types a name into the focused field, and takes it from the list: others may contain it. */
  const pick = async (name) => {
    await page.keyboard.type(name);
    await page.waitForSelector(`[role=option][data-value="${name}"]`);
    const options = await page.$$eval("[role=option]", (all) =>
      all.map((one) => one.dataset.value),
    );
    for (let down = 0; down < options.indexOf(name); down++) await press("ArrowDown");
    await press("Enter");
  };

  await t.check("by keys: from the overview to a service, its slowest trace, a span", async () => {
    await t.open("/", "services");
    const names = await page.$$eval("[data-testid=services] tr[data-service]", (rows) =>
      rows.map((row) => row.dataset.service),
    );
    const name = names.find((one) => t.best.services.includes(one));
    must(name, `no service of ${t.best.services} is listed`);
    const here = `/service/${encodeURIComponent(name)}`;
    await choose(`tr[data-service="${name}"] a`);
    await at(here);
    await page.waitForSelector("[data-testid=service-page]");
    await focused("main");
    await choose('.overview-head a[href^="/search"]');
    await at("/search");
    await t.searched();
    await focused("main");
    await choose("[data-testid=sort-slowest]");
    await query((params) => params.get("sort") === "slowest");
    await t.searched();
    await focused("[data-testid=sort-slowest]");
    await reach("[data-testid=result]");
    const first = await page.locator("[data-testid=result]").first().getAttribute("data-trace-id");
    must(
      (await page.evaluate(() => document.activeElement.dataset.traceId)) === first,
      "Tab skips the first trace",
    );
    await press("Enter");
    await at(`/trace/${first}`);
    await page.waitForSelector("[data-testid=tree]");
    await focused("main");
    await reach("[data-testid=tree]");
    await press("ArrowDown");
    await page.waitForSelector("[data-testid=details]");
    await focused("[data-testid=tree]");
    await reach("[data-testid=details] [aria-label='Close details']");
    await press("Enter");
    await page.waitForSelector("[data-testid=details]", { state: "detached" });
    await focused("[data-testid=tree]");
    await page.goBack();
    await focused(`[data-testid=result][data-trace-id="${first}"]`);
  });

  await t.check("by keys: filters are set and removed, and the focus stays by them", async () => {
    await t.open("/search", "result");
    await press("/");
    await focused("[data-testid=service]");
    const wanted = (await t.listed())[0].services[0];
    await pick(wanted);
    await query((params) => params.get("service") === wanted);
    await focused("[data-testid=service]");
    await t.searched();
    await choose("[aria-label='Any service']");
    await query((params) => !params.has("service"));
    await focused("[data-testid=service]");
    await reach("[data-testid=status-ok]");
    await press("Space");
    await query((params) => params.get("status") === "ok");
    await focused("[data-testid=status-ok]");
    await reach("[data-testid=attribute]");
    await page.keyboard.type("http.response.status_code>=200");
    await press("Enter");
    await query((params) => params.has("attribute"));
    await focused("[data-testid=attribute]");
    await reach("[data-testid=condition] button", "Shift+Tab");
    await press("Enter");
    await query((params) => !params.has("attribute"));
    await focused("[data-testid=attribute]");
    await choose("[data-testid=clear-filters]");
    await query((params) => !params.has("status"));
    await focused("[data-testid=service]");
    await press("Escape");
    await t.searched();
    await press("j");
    await focused("[data-testid=result].chosen");
    const second = await page.locator("[data-testid=result]").nth(1).getAttribute("data-trace-id");
    await press("j");
    await focused(`[data-testid=result].chosen[data-trace-id="${second}"]`);
    await press("Enter");
    await at(`/trace/${second}`);
  });

  await t.check("by keys: a trace is walked, collapsed, expanded and searched", async () => {
    await t.open(`/trace/${t.best.id}`, "tree");
    await reach("[data-testid=tree]");
    const current = () => page.getAttribute("[aria-selected=true][role=treeitem]", "data-span-id");
    const rows = (fits) =>
      page.waitForFunction(
        ([fewer, than]) => {
          const now = Number(document.querySelector("[data-testid=tree]")?.dataset.rows);
          return fewer ? now < than : now === than;
        },
        [fits.below !== undefined, fits.below ?? fits.exactly],
      );
    const all = Number(await page.getAttribute("[data-testid=tree]", "data-rows"));
    // To the first span that has children.
    for (let line = 0; ; line++) {
      must(line < all, "no span has children");
      await press("ArrowDown");
      await page.waitForFunction((index) => {
        const lines = [...document.querySelectorAll("[role=treeitem]")];
        lines.sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top));
        return lines[index]?.ariaSelected === "true";
      }, line);
      if (await page.locator("[aria-selected=true][aria-expanded=true]").count()) break;
    }
    const above = await current();
    await press("ArrowLeft");
    await rows({ below: all });
    must((await current()) === above, "collapsing a span leaves it");
    await focused("[data-testid=tree]");
    await press("ArrowRight");
    await rows({ exactly: all });
    await press("ArrowRight");
    await page.waitForFunction(
      (id) => document.querySelector("[aria-selected=true][role=treeitem]")?.dataset.spanId !== id,
      above,
    );
    await press("[");
    await rows({ below: all });
    await press("]");
    await rows({ exactly: all });
    await focused("[data-testid=tree]");
    const wanted = t.best.services.at(-1);
    await press("/");
    await focused("[data-testid=filter]");
    await page.keyboard.type(wanted);
    // The filter follows the typing: a service is never all of this trace.
    await page.waitForFunction(
      (before) =>
        document.querySelector("[role=treeitem].dim") ||
        Number(document.querySelector("[data-testid=tree]")?.dataset.rows) < before,
      all,
    );
    await press("Enter");
    await focused("[data-testid=filter]");
    await press("Escape");
    const span = await current();
    await press("n");
    await page.waitForFunction(
      ([id, one]) => {
        const row = document.querySelector("[aria-selected=true][role=treeitem]");
        return row && (row.dataset.spanId !== id || one);
      },
      [span, (await page.locator("[role=treeitem]:not(.dim)").count()) === 1],
    );
    await press("/");
    await press("ControlOrMeta+a");
    await press("Delete");
    await query((params) => !params.has("q"));
    await rows({ exactly: all });
  });

  await t.check("by keys: the menu leads to every analysis and back", async () => {
    await t.open("/", "services");
    const button = "[data-testid=analysis-menu]";
    await reach(button);
    await press("Enter");
    const links = "[data-testid=analysis-pages] a";
    await page.waitForSelector(links);
    const paths = await page.$$eval(links, (all) => all.map((one) => one.getAttribute("href")));
    must(paths.length > 3, `only ${paths.length} analyses`);
    await press("Escape");
    await focused(button);
    for (const [index, path] of paths.entries()) {
      await press("Enter");
      await page.waitForSelector(links);
      for (let down = 0; down <= index; down++) {
        await press("ArrowDown");
        await focused(`[data-testid=analysis-pages] a[href="${paths[down]}"]`);
      }
      await press("Enter");
      await at(path);
      await page.waitForSelector("main h1");
      await focused(button);
    }
    await reach("nav a[href='/']", "Shift+Tab");
    await press("Enter");
    await page.waitForSelector("[data-testid=services]");
    await focused("nav a[href='/']");
  });

  await t.check("by keys: the map shows a service, its calls, and closes them", async () => {
    await t.open("/map", "edges");
    const { edges } = await t.api("graph?start=-1h");
    const called = edges.find(({ client, server }) => client !== server)?.server;
    must(called, "no service calls another");
    await reach("[data-testid=focus]");
    await pick(called);
    await query((params) => params.get("node") === called);
    await focused("[data-testid=focus]");
    await choose("[data-testid=node-panel] .calls button");
    await page.waitForSelector("[data-testid=edge-panel]");
    await seen();
    await reach("[data-testid=edge-panel] [aria-label=Close]");
    await press("Enter");
    await page.waitForSelector("[data-testid=edge-panel]", { state: "detached" });
    await focused(".grid-box");
    await choose(".row-button");
    await page.waitForSelector("[data-testid=edge-panel]");
    await focused(".row-button");
    await press("Escape");
    await page.waitForSelector("[data-testid=edge-panel]", { state: "detached" });
    await focused(".row-button");
  });

  await t.check("by keys: help and the commands give the focus back", async () => {
    await t.open("/", "services");
    await reach("[data-testid=services] th button");
    await press("?");
    await page.waitForSelector("dialog[aria-label=Help][open]");
    await seen();
    await press("Escape");
    await page.waitForSelector("dialog[aria-label=Help][open]", { state: "detached" });
    await focused("[data-testid=services] th button");
    await press("Control+k");
    await focused("[data-testid=commands] input");
    await press("Escape");
    await focused("[data-testid=services] th button");
    await press("Control+k");
    await focused("[data-testid=commands] input");
    await page.keyboard.type("Slowest traces");
    await press("Enter");
    await at("/search");
    await t.searched();
    await focused("main");
  });
}
