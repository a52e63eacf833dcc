/**
 * Measures the UI in headless Chromium without a GPU, and prints `figure` lines:
 *
 *   node test/bench.mjs BASE_URL [load] [100k=TRACE_ID] [1m=TRACE_ID] [map] [search]
 *
 * `make bench-web` starts servers with such traces, and one with many to search in. This script
 * makes the map's graph. Every figure but that of the search is of one page that is opened afresh.
 */
import { must, start } from "./browser/harness.mjs";
import { drag, openMap, quantile } from "./browser/map.mjs";
import { crowd } from "./fixture/crowd.mjs";

const FRAMES = 120;
const MAP = { services: 34_000, calls: 250_000 };
/** For pages that may take far longer than is wanted: a bad figure is better than none. */
const PATIENCE_MS = 120_000;

const [base = "http://127.0.0.1:7070", ...named] = process.argv.slice(2);
const traces = Object.fromEntries(
  named.filter((one) => one.includes("=")).map((one) => one.split("=")),
);
const t = await start(base.replace(/\/$/, ""), "test-results");
const { page } = t;
page.setDefaultTimeout(PATIENCE_MS);
const figure = (name, value, unit) => console.log(`figure web.${name} ${value} ${unit}`);
const seconds = (ms) => (ms / 1000).toFixed(2);
const rate = (gaps) => (1000 / (gaps.reduce((sum, one) => sum + one, 0) / gaps.length)).toFixed(1);

async function firstLoad() {
  const sizes = [];
  const count = (response) => {
    // What the page asks of the API is data, not the UI.
    if (!response.url().startsWith(t.base) || response.url().includes("/api/")) return;
    sizes.push(response.request().sizes());
  };
  page.on("response", count);
  await page.goto(`${t.base}/`);
  await page.waitForLoadState("load");
  page.off("response", count);
  const bytes = (await Promise.all(sizes)).reduce((sum, one) => sum + one.responseBodySize, 0);
  const paint = await page.waitForFunction(
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  );
  figure("first_load_kb", (bytes / 1000).toFixed(0), "kB");
  figure("first_paint_s", seconds(await paint.jsonValue()), "s");
}

/** Opens a trace and waits for its first lines. */
async function openTrace(name, id) {
  await page.goto("about:blank");
  const begun = Date.now();
  await page.goto(`${t.base}/trace/${id}`);
  await page.waitForSelector("[data-testid=tree] [data-testid=span]");
  figure(`trace_${name}_open_s`, seconds(Date.now() - begun), "s");
}

/** Scrolls the tree for a number of frames, farther in each than a person can. */
async function scroll(name) {
  const gaps = await page.evaluate(async (frames) => {
    const box = document.querySelector("[data-testid=tree]");
    const taken = [];
    let last = await new Promise(requestAnimationFrame);
    while (taken.length < frames) {
      box.scrollTop += 120;
      const now = await new Promise(requestAnimationFrame);
      taken.push(now - last);
      last = now;
    }
    return taken;
  }, FRAMES);
  must(
    (await page.$eval("[data-testid=tree]", (box) => box.scrollTop)) > 0,
    "the tree of the trace did not scroll",
  );
  figure(`trace_${name}_scroll_fps`, rate(gaps), "1/s");
  console.log(`  p95 of a frame ${quantile(gaps, 0.95).toFixed(0)} ms`);
}

/** The JavaScript heap after a collection of garbage. */
async function memory(name) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  figure(`memory_${name}_mb`, (usedSize / 1e6).toFixed(0), "MB");
}

async function map() {
  const graph = crowd(MAP.services, MAP.calls);
  await page.goto("about:blank");
  const first = await openMap(t, graph);
  figure("map_34000_first_s", seconds(first), "s");
  const { gaps, work } = await drag(page, FRAMES);
  figure("map_34000_pan_fps", rate(gaps), "1/s");
  console.log(`  drawing ${quantile(work, 0.5)} ms, p95 ${quantile(work, 0.95)} ms`);
}

/** Clicks on the search page, each as often as there are other things to choose. */
const CLICKS = {
  status: ["status-error", "status-ok", "status-any"],
  order: ["sort-slowest", "sort-errors", "sort-largest"],
};

/**
 * From a click until the page has asked the server and drawn the rows of the answer. The figure is
 * of the slowest kind of click: the median of its clicks.
 */
async function search() {
  await page.goto(`${t.base}/search`);
  await page.waitForSelector("[data-testid=result]");
  await t.searched();
  const times = {};
  const note = async (kind, click) => {
    // Rows are as many before as after: the page says that it is loading.
    await page.evaluate(() => {
      const box = document.querySelector("main.search");
      window.took_ = new Promise((done) => {
        let from = null;
        const pressed = () => (from = performance.now());
        addEventListener("pointerdown", pressed, { once: true, capture: true });
        let asked = false;
        new MutationObserver((_, watch) => {
          asked ||= box.dataset.loading === "true";
          if (!asked || box.dataset.loading === "true") return;
          watch.disconnect();
          // With the next frame the rows are drawn.
          requestAnimationFrame(() => setTimeout(() => done(performance.now() - from)));
        }).observe(box, { attributeFilter: ["data-loading"] });
      });
    });
    await click();
    (times[kind] ??= []).push(await page.evaluate(() => window.took_));
    must((await page.locator("[data-testid=result]").count()) > 0, `${kind}: no rows`);
  };
  for (const [kind, ids] of Object.entries(CLICKS)) {
    for (const id of ids) await note(kind, () => page.click(`[data-testid=${id}]`));
  }
  await page.goto(`${t.base}/search`);
  await t.searched();
  const { services } = await t.api("services");
  for (const { name } of services.slice(0, 3)) {
    await page.click("[data-testid=service]");
    await page.keyboard.type(name);
    const option = page.locator(`[role=option][data-value="${name}"]`);
    await option.waitFor();
    await note("service", () => option.click());
  }
  const medians = Object.entries(times).map(([kind, all]) => {
    console.log(`  ${kind}: ${all.map((one) => `${one.toFixed(0)} ms`).join(", ")}`);
    return quantile(all, 0.5);
  });
  figure("search_interactive_s", seconds(Math.max(...medians)), "s");
}

const failed = [];
/** A figure that cannot be taken says why, and the others are still taken. */
async function part(name, body) {
  try {
    await body();
  } catch (error) {
    failed.push(name);
    console.error(`no figure of ${name}: ${String(error.message ?? error).split("\n")[0]}`);
  }
}
if (named.includes("load")) await part("the first load", firstLoad);
for (const [name, id] of Object.entries(traces)) {
  await part(`the trace of ${name}`, async () => {
    await openTrace(name, id);
    if (name !== "100k") return;
    await scroll(name);
    await memory(name);
  });
}
if (named.includes("map")) await part("the map", map);
if (named.includes("search")) await part("the search", search);
t.results.failed = failed.length;
await t.end();
