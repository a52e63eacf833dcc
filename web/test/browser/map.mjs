/** The map: small, with a hundred services, and with thousands. */
import { createServer } from "node:http";
import { crowd } from "../fixture/crowd.mjs";
import { must } from "./harness.mjs";

/**
 * Drags the picture for a number of frames. Returns the milliseconds between frames, and the
 * drawing time of each.
 */
export async function drag(page, frames) {
  const box = await page.locator("[data-testid=picture]").boundingBox();
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  await page.mouse.move(middle.x, middle.y);
  await page.mouse.down();
  await page.evaluate((count) => {
    window.frames_ = new Promise((done) => {
      const taken = [];
      let last = performance.now();
      const step = (now) => {
        taken.push(now - last);
        last = now;
        if (taken.length < count) requestAnimationFrame(step);
        else done(taken);
      };
      requestAnimationFrame(step);
    });
  }, frames);
  const work = [];
  for (let at = 0; at < frames; at++) {
    await page.mouse.move(middle.x + 120 * Math.sin(at / 5), middle.y + 60 * Math.cos(at / 7));
    work.push(Number(await page.getAttribute("[data-testid=picture]", "data-frame")));
  }
  await page.mouse.up();
  return { gaps: await page.evaluate(() => window.frames_), work };
}

export const quantile = (list, share) =>
  [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))];

/** Opens the map with this graph. Returns the milliseconds until its picture is drawn. */
export async function openMap(t, graph) {
  const { page } = t;
  // A server gives it to the page: the driver of the browser is slow with answers of this size.
  const body = JSON.stringify(graph);
  const server = createServer((_, response) =>
    response.setHeader("content-type", "application/json").end(body),
  );
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  server.unref();
  const url = `http://127.0.0.1:${server.address().port}/`;
  await page.route("**/api/v1/graph*", (route) => route.continue({ url }));
  const begun = Date.now();
  await page.goto(`${t.base}/map`);
  await page.waitForSelector("[data-testid=picture][data-labels]:not([data-nodes='0'])", {
    timeout: 60_000,
  });
  return Date.now() - begun;
}

export async function mapChecks(t) {
  const { page } = t;
  await t.check("the map draws the calls and lists them", async () => {
    await t.open("/map", "edges");
    const graph = await t.api("graph?start=-1h&end=now");
    const edges = await page.$$eval("[data-testid=edges] tbody tr", (rows) =>
      rows.map((row) => ({ ...row.dataset })),
    );
    must(edges.length >= t.minServices - 1, `${edges.length} calls listed`);
    must(graph.nodes.length >= t.minServices, `${graph.nodes.length} services on the map`);
    must((await page.locator(".map-canvas canvas").count()) === 2, "the map has no canvas");
    await page.mouse.move(5, 5);
    await page.waitForTimeout(500);
    await page.waitForSelector("[data-testid=picture]:not([data-nodes='0'])");
    await t.shot("map");
    await page.locator("[data-testid=edges] tbody tr").first().click();
    await page.waitForSelector("[data-testid=edge-panel]");
    must(new URL(page.url()).searchParams.has("edge"), "the chosen call is not in the address");
  });

  await t.check("the map stays right in another theme and another size", async () => {
    await page.setViewportSize({ width: 1024, height: 768 });
    await page.click("[data-testid=theme]");
    must(
      (await page.evaluate(() => document.documentElement.dataset.theme)) === "dark",
      "the theme did not change",
    );
    await page.reload();
    await page.waitForSelector("[data-testid=edges]");
    must(
      (await page.evaluate(() => document.documentElement.dataset.theme)) === "dark",
      "the theme was not remembered",
    );
    await page.click("[data-testid=theme]");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    must(wide <= 1024, `the page is ${wide} px wide in a window of 1024`);
    await page.setViewportSize({ width: 1440, height: 900 });
  });

  await t.check("what is chosen stands beside the picture, and keys choose it", async () => {
    await t.open("/map", "edges");
    await page.locator(".row-button").first().focus();
    await page.keyboard.press("Enter");
    const panel = await page.locator("[data-testid=edge-panel]").boundingBox();
    const picture = await page.locator(".map-canvas").boundingBox();
    must(panel.x >= picture.x + picture.width - 1, "the panel is not beside the picture");
    must(panel.y <= picture.y + 1, "the panel is below the picture's top");
    await page.keyboard.press("Escape");
    await page.waitForSelector("[data-testid=edge-panel]", { state: "detached" });
  });

  await t.check("a map of 100 services can be read", async () => {
    await openMap(t, crowd(100, 300));
    const labels = Number(await page.getAttribute("[data-testid=picture]", "data-labels"));
    must(labels >= 60, `${labels} of 100 services have their names`);
    await t.shot("map-100");
  });

  await t.check(
    "a map of 2,000 services and 10,000 calls is there soon and stays fluent",
    async () => {
      const first = await openMap(t, crowd(2000, 10_000));
      must(first < 15_000, `the first picture took ${first} ms`);
      const { gaps, work } = await drag(page, 40);
      const [middle, slow] = [quantile(gaps, 0.5), quantile(gaps, 0.95)];
      console.log(
        `      first picture ${first} ms; dragged: a frame every ${middle.toFixed(0)} ms, p95 ${slow.toFixed(0)} ms; drawing ${quantile(work, 0.5)} ms, p95 ${quantile(work, 0.95)} ms`,
      );
      must(slow < 300, `a frame took ${slow} ms`);
      const left = await page.innerText("[data-testid=map-left]");
      must(/2,000 services/.test(left) && /8,500 are not drawn/.test(left), left);
      const rows = await page.locator("[data-testid=edges] tbody tr").count();
      must(rows < 100, `${rows} rows of the table are elements`);
      const all = await page.getAttribute("[data-testid=edges]", "aria-rowcount");
      must(all === "10001", `the table has ${all} rows`);
      await t.shot("map-2000");
    },
  );

  await t.check("a service is found on a large map, with its neighbours only", async () => {
    const graph = crowd(2000, 10_000);
    await openMap(t, graph);
    const wanted = graph.nodes[40].name;
    const near = new Set([wanted]);
    for (const { client, server } of graph.edges) {
      if (client === wanted) near.add(server);
      if (server === wanted) near.add(client);
    }
    await page.click("[data-testid=focus]");
    await page.keyboard.type(wanted);
    await page.keyboard.press("Enter");
    await page.waitForSelector(`[data-testid=picture][data-nodes="${near.size}"]`);
    await page.waitForSelector("[data-testid=node-panel]");
    await t.shot("map-focus");
    await page.click("[data-testid=map-focus] button");
    await page.waitForSelector('[data-testid=picture][data-nodes="2000"]');
  });

  await t.check("calls are coloured by errors, latency or retransmits", async () => {
    const now = await t.api("graph?start=-1h");
    must(
      now.edges.some((edge) => edge.network?.rtt_p50_nano !== undefined),
      "the kernel saw no connection",
    );
    // A call of a service to itself has no line.
    const worst = now.edges
      .filter(({ client, server }) => client !== server)
      .sort((a, b) => b.requests - a.requests)[0];
    const resent = { calls: 20, connects: 0, resent_calls: 10, retransmits: 12 };
    const graph = {
      ...now,
      nodes: now.nodes.map((node) => ({ ...node, errors: 0 })),
      edges: now.edges.map((edge) => ({
        ...edge,
        errors: 0,
        error_share: 0,
        network: edge === worst ? resent : undefined,
      })),
    };
    await openMap(t, graph);
    const reds = () =>
      page.$eval("[data-testid=picture] canvas", (canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let at = 0; at < data.length; at += 4) {
          const [r, g, b] = data.slice(at, at + 3);
          if (r > 170 && g < 90 && b < 100) count++;
        }
        return count;
      });
    await page.waitForTimeout(500);
    const plain = await reds();
    await page.selectOption("[data-testid=colour]", "retransmits");
    await page.waitForURL((url) => url.searchParams.get("colour") === "retransmits");
    await page.waitForTimeout(500);
    const red = await reds();
    must(red > plain + 20, `${red} red pixels, ${plain} before`);
    await t.shot("map-retransmits");
    const { client, server } = worst;
    const row = page.locator(
      `[data-testid=edges] tr[data-client="${client}"][data-server="${server}"]`,
    );
    must((await row.first().innerText()).includes("50%"), await row.first().innerText());
    await page.selectOption("[data-testid=colour]", "latency");
    await page.waitForURL((url) => url.searchParams.get("colour") === "latency");
    await page.goBack();
    await page.waitForURL((url) => url.searchParams.get("colour") === "retransmits");
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });

  await t.check("groups close services to one node each, and open again", async () => {
    const graph = crowd(2000, 10_000);
    await openMap(t, graph);
    await page.selectOption("[data-testid=group]", "word");
    const words = new Set(graph.nodes.map(({ name }) => name.split("-")[0]));
    await page.waitForSelector(`[data-testid=picture][data-nodes="${words.size}"]`);
    must(t.param("group") === "word", page.url());
    const shown = await page.$$eval("[data-testid=edges] tbody tr[data-requests]", (rows) =>
      rows.map((row) => Number(row.dataset.requests)),
    );
    const first = (name) => name.split("-")[0];
    const between = graph.edges
      .filter(({ client, server }) => first(client) !== first(server))
      .reduce((sum, { requests }) => sum + requests, 0);
    const all = Number(await page.getAttribute("[data-testid=edges]", "aria-rowcount")) - 1;
    if (shown.length === all) {
      const sum = shown.reduce((total, one) => total + one, 0);
      must(sum === between, `${sum} calls between groups, not ${between}`);
    }
    await t.shot("map-groups");
    const size = graph.nodes.filter(({ name }) => first(name) === "mail").length;
    const url = new URL(page.url());
    url.searchParams.set("node", `mail (${size} services)`);
    await page.goto(url.href);
    await page.click("[data-testid=open-group]");
    await page.waitForSelector(`[data-testid=picture][data-nodes="${words.size - 1 + size}"]`);
    must(t.param("open") === "mail", page.url());
    await page.click("[data-testid=map-groups] button");
    await page.waitForSelector(`[data-testid=picture][data-nodes="${words.size}"]`);
  });

  await t.check("a slider goes back in time, and the window stands in the address", async () => {
    await t.open("/map", "edges");
    const asked = [];
    const note = (request) => request.url().includes("/api/v1/graph") && asked.push(request.url());
    page.on("request", note);
    await page.focus("[data-testid=time-slider]");
    for (let at = 0; at < 4; at++) await page.keyboard.press("ArrowLeft");
    await page.waitForURL((url) => url.searchParams.get("back") === "4");
    const said = await page.innerText("[data-testid=time-window]");
    must(/\d\d:\d\d:\d\d – .*\d\d:\d\d:\d\d/.test(said), said);
    await page.waitForFunction(() => document.querySelector("[data-testid=map]") !== null);
    const last = new URL(asked.at(-1)).searchParams;
    const [start, end] = ["start", "end"].map((name) => Number(last.get(name)) / 1e6);
    must(Math.abs(end - start - 3600e3) < 1000, `${(end - start) / 1000} s long`);
    must(Math.abs(Date.now() - 3600e3 - end) < 120e3, `it ends ${(Date.now() - end) / 1000} s ago`);
    page.off("request", note);
    await page.click(".time-slider button");
    await page.waitForURL((url) => !url.searchParams.has("back"));
  });

  await t.check("against the window before: new, gone and slower calls are marked", async () => {
    const now = await t.api("graph?start=-1h");
    must(now.edges.length >= 3, `${now.edges.length} calls`);
    const busy = [...now.edges].sort((a, b) => b.requests - a.requests);
    const [slower, fresh] = [busy[0], busy[1]];
    const gone = { ...busy[2], server: "was-here" };
    const before = {
      ...now,
      nodes: [...now.nodes, { ...now.nodes[0], name: "was-here" }],
      edges: [
        ...now.edges.filter((edge) => edge !== fresh && edge !== slower),
        { ...slower, requests: 1000, errors: 0, error_share: 0, p95_nano: "1000" },
        gone,
      ],
    };
    const changed = {
      ...now,
      edges: now.edges.map((edge) =>
        edge === slower
          ? { ...edge, requests: 1000, errors: 0, error_share: 0, p95_nano: "900000000" }
          : edge,
      ),
    };
    await page.route("**/api/v1/graph*", (route) => {
      const end = Number(new URL(route.request().url()).searchParams.get("end")) / 1e6;
      return route.fulfill({ json: Date.now() - end > 1800e3 ? before : changed });
    });
    await page.goto(`${t.base}/map?differ=1`);
    const marked = (change) => `[data-testid=edges] tr[data-change=${change}]`;
    await page.waitForSelector(marked("slower"));
    for (const [change, edge] of [
      ["slower", slower],
      ["new", fresh],
      ["gone", gone],
    ]) {
      const rows = await page.$$eval(marked(change), (all) =>
        all.map((row) => [row.dataset.client, row.dataset.server]),
      );
      must(
        rows.some(([client, server]) => client === edge.client && server === edge.server),
        `${change}: ${rows}`,
      );
    }
    const said = await page.innerText("[data-testid=map-differences]");
    must(/1 slower/.test(said) && /1 new/.test(said) && /1 gone/.test(said), said);
    await page.waitForSelector("[data-testid=picture]:not([data-nodes='0'])");
    await t.shot("map-differences");
    // Nothing is new if nothing was seen before.
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.route("**/api/v1/graph*", (route) => {
      const end = Number(new URL(route.request().url()).searchParams.get("end")) / 1e6;
      const json = Date.now() - end > 1800e3 ? { ...now, nodes: [], edges: [] } : now;
      return route.fulfill({ json });
    });
    await page.reload();
    await page.waitForSelector("text=nothing can be said to be new");
  });

  await t.check("a map of 34,000 services shows the busiest, and what is around any", async () => {
    const graph = crowd(34_000, 250_000);
    const first = await openMap(t, graph);
    console.log(`      first picture ${first} ms`);
    const cut = await page.innerText("[data-testid=map-cut]");
    must(/^The 2,000 busiest of 34,000/.test(cut), cut);
    await t.shot("map-34000");
    const busy = graph.nodes.reduce((most, one) => (one.requests > most.requests ? one : most));
    const rare = graph.nodes.reduce((least, one) => (one.requests < least.requests ? one : least));
    must(busy.name !== rare.name, "all services are as busy");
    const around = (hops) => {
      const near = new Set([rare.name]);
      for (let hop = 0; hop < hops; hop++) {
        const from = new Set(near);
        for (const { client, server } of graph.edges) {
          if (from.has(client)) near.add(server);
          if (from.has(server)) near.add(client);
        }
      }
      return Math.min(2000, near.size);
    };
    await page.click("[data-testid=focus]");
    await page.keyboard.type(rare.name);
    await page.keyboard.press("Enter");
    await page.waitForSelector(`[data-testid=picture][data-nodes="${around(1)}"]`);
    await page.selectOption("[data-testid=hops]", "2");
    await page.waitForSelector(`[data-testid=picture][data-nodes="${around(2)}"]`);
    await t.shot("map-34000-hops");
    await page.click("[data-testid=map-focus] button");
    await page.selectOption("[data-testid=least]", "10");
    const named = new Set(
      graph.edges
        .filter((edge) => edge.requests_per_second >= 10)
        .flatMap(({ client, server }) => [client, server]),
    );
    must(named.size > 0, "no call is so frequent");
    await page.waitForSelector(`[data-testid=picture][data-nodes="${Math.min(2000, named.size)}"]`);
  });
}
