/**
 * Uses the UI as a person does, in headless Chromium, against a running server
 * that has traces of a shop:
 *
 *   node test/browser.mjs BASE_URL OUT_DIRECTORY
 *
 * Environment: MIN_SERVICES (5) services that some trace must cross; SERVICE, the
 * service to filter by (the busiest that is not first in line); CHROMIUM.
 * Saves screenshots, prints `N passed, N failed`, exits 1 where a check failed.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const base = (process.argv[2] ?? process.env.BASE_URL ?? "http://127.0.0.1:7070").replace(
  /\/$/,
  "",
);
const out = process.argv[3] ?? process.env.OUT ?? "test-results";
const minServices = Number(process.env.MIN_SERVICES ?? 5);
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const PATIENCE = 15_000;

const results = { passed: 0, failed: 0 };
async function check(name, body) {
  try {
    await body();
    results.passed++;
    console.log(`ok    ${name}`);
  } catch (error) {
    results.failed++;
    console.log(
      `FAIL  ${name}\n      ${String(error.message ?? error)
        .split("\n")
        .slice(0, 6)
        .join("\n      ")}`,
    );
    await page?.screenshot({ path: join(out, `failed-${results.failed}.png`) }).catch(() => {});
  }
}
function must(condition, message) {
  if (!condition) throw new Error(message);
}
async function api(path) {
  const response = await fetch(`${base}/api/v1/${path}`);
  if (!response.ok) {
    throw new Error(
      `GET ${path}: HTTP ${response.status} ${(await response.text()).slice(0, 200)}`,
    );
  }
  return response.json();
}

if (!existsSync(executablePath)) {
  console.error(`${executablePath} is missing: install chromium, or name it in CHROMIUM`);
  process.exit(2);
}
mkdirSync(out, { recursive: true });
const profile = mkdtempSync(join(tmpdir(), "spanwise-browser-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath,
  // Playwright's own headless mode would be the old one.
  headless: false,
  viewport: { width: 1440, height: 900 },
  colorScheme: "light",
  args: [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
const page = browser.pages()[0] ?? (await browser.newPage());
page.setDefaultTimeout(PATIENCE);
const complaints = [];
page.on("pageerror", (error) => complaints.push(`exception: ${error.message}`));
page.on("console", (message) => {
  // A missing trace is asked for on purpose; the browser logs every 404.
  if (message.type() === "error" && !message.text().includes("404"))
    complaints.push(message.text());
});

const shot = async (name) => {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    // Canvases are drawn again, and the map settles.
    await page.waitForTimeout(350);
    await page.screenshot({ path: join(out, `${name}-${scheme}.png`) });
  }
  await page.emulateMedia({ colorScheme: "light" });
};
const open = async (path, testid) => {
  await page.goto(`${base}${path}`);
  await page.waitForSelector(`[data-testid=${testid}]`);
};
const listed = () =>
  page.$$eval("[data-testid=result]", (rows) =>
    rows.map((row) => ({
      id: row.dataset.traceId,
      services: row.dataset.services.split(" "),
      spans: Number(row.dataset.spans),
      errors: Number(row.dataset.errors),
    })),
  );

/** Every line of the tree: it is virtual, so it is read while scrolling through. */
async function readTree() {
  await page.waitForSelector("[data-testid=span]");
  return page.evaluate(async () => {
    const box = document.querySelector("[data-testid=tree]");
    const lines = new Map();
    box.scrollTop = 0;
    for (;;) {
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      for (const row of box.querySelectorAll("[role=treeitem]")) {
        lines.set(row.dataset.spanId, {
          ...row.dataset,
          level: Number(row.getAttribute("aria-level")),
          top: parseFloat(row.style.top),
        });
      }
      if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1) break;
      box.scrollTop += Math.max(100, box.clientHeight - 60);
    }
    box.scrollTop = 0;
    const sorted = [...lines.values()].sort((a, b) => a.top - b.top);
    return { lines: sorted, announced: Number(box.dataset.rows) };
  });
}

/** Parents come before their children, one level above them. */
function wellFormed({ lines, announced }) {
  must(lines.length === announced, `${lines.length} lines read, ${announced} announced`);
  const level = new Map();
  for (const line of lines) {
    const what = `${line.service} ${line.operation} (${line.spanId})`;
    if (line.parentId === "") must(line.level === 1, `root ${what} has level ${line.level}`);
    else {
      must(level.has(line.parentId), `${what}: parent ${line.parentId} is no line above it`);
      must(
        line.level === level.get(line.parentId) + 1,
        `${what}: level ${line.level} under a parent of level ${level.get(line.parentId)}`,
      );
    }
    level.set(line.spanId, line.level);
  }
}

let best = null;
let trace = null;

await check("search lists traces and draws their durations", async () => {
  await open("/?limit=500", "result");
  const traces = await listed();
  must(traces.length > 0, "no trace in the list");
  const points = Number(await page.getAttribute("[data-testid=scatter]", "data-points"));
  must(points === traces.length, `${points} points for ${traces.length} traces`);
  must((await page.locator(".scatter canvas").count()) === 1, "the scatter has no canvas");
  best = traces.sort((a, b) => b.services.length - a.services.length || a.spans - b.spans)[0];
  must(
    best.services.length >= minServices,
    `no trace crosses ${minServices} services; the widest has ${best.services.join(", ")}`,
  );
  await shot("search");
});

await check("older traces follow those listed, none twice and none left out", async () => {
  // The browser itself is traced, and asks for names meanwhile: what was there
  // before and still is must be listed.
  const stored = async () => {
    const query = "SELECT DISTINCT assembled_trace_id FROM spans";
    const { rows } = await api(`sql?query=${encodeURIComponent(query)}`);
    // What has just come has no trace yet.
    return new Set(rows.map(([id]) => id).filter((id) => id !== null));
  };
  const before = await stored();
  await open("/?limit=50", "results");
  const seen = new Set();
  let last;
  for (let pages = 0; pages < 100; pages++) {
    // A page begins with the moment at which the one before ended.
    const ids = (await listed()).map((one) => one.id).filter((id) => id !== last);
    const twice = ids.find((id) => seen.has(id));
    must(twice === undefined, `trace ${twice} is listed twice`);
    for (const id of ids) seen.add(id);
    last = ids.at(-1);
    const older = page.locator("[data-testid=older]");
    if ((await older.count()) === 0) break;
    const end = new URL(page.url()).searchParams.get("end");
    await older.click();
    await page.waitForURL((url) => url.searchParams.get("end") !== end);
    await page.waitForSelector("main.search[data-loading=false]");
  }
  must(before.size > 100, `only ${before.size} traces are stored`);
  const after = await stored();
  const missing = [...before].filter((id) => after.has(id) && !seen.has(id));
  must(missing.length === 0, `${missing.length} of ${before.size} are not listed: ${missing[0]}`);
});

await check("the service filter narrows the list and stands in the address", async () => {
  await open("/", "result");
  await page.keyboard.press("/");
  const focused = await page.evaluate(() => document.activeElement?.dataset.testid);
  must(focused === "service", "the key / did not focus the service field");
  const names = await page.$$eval("[role=option]", (all) => all.map((one) => one.dataset.value));
  must(names.length >= minServices, `only ${names.length} services offered: ${names.join(", ")}`);
  const wanted = process.env.SERVICE ?? (names.includes("payments") ? "payments" : names.at(-1));
  await page.keyboard.type(wanted);
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.searchParams.get("service") === wanted);
  await page.waitForSelector("[data-testid=result], [data-testid=blank]");
  await page.waitForSelector("main.search[data-loading=false]");
  const traces = await listed();
  must(traces.length > 0, `no trace of ${wanted}`);
  for (const one of traces) {
    must(
      one.services.includes(wanted),
      `trace ${one.id} has no span of ${wanted}: ${one.services}`,
    );
  }
  best = traces.sort((a, b) => b.services.length - a.services.length || a.spans - b.spans)[0];
});

await check("a trace opens by a click and its tree is whole", async () => {
  await page.click(`[data-testid=result][data-trace-id="${best.id}"]`);
  await page.waitForURL((url) => url.pathname === `/trace/${best.id}`);
  trace = await api(`traces/${best.id}`);
  const tree = await readTree();
  wellFormed(tree);
  must(
    tree.lines.length === trace.spans.length,
    `${tree.lines.length} lines for ${trace.spans.length} spans`,
  );
  const parents = new Map(trace.spans.map((span) => [span.span_id, span.parent ?? ""]));
  for (const line of tree.lines) {
    must(
      parents.get(line.spanId) === line.parentId,
      `${line.spanId} hangs under "${line.parentId}", the API says "${parents.get(line.spanId)}"`,
    );
  }
  const services = new Set(tree.lines.map((line) => line.service));
  must(services.size >= minServices, `${services.size} services: ${[...services].join(", ")}`);
  for (const line of tree.lines) {
    must(
      ["app", "client-process", "server-process", "client-nic", "server-nic"].includes(
        line.capture,
      ),
      `${line.spanId} has no capture point, but "${line.capture}"`,
    );
  }
  await shot("trace");
});

await check("the details say why a span hangs where it hangs", async () => {
  const span = trace.spans.find((one) => one.evidence === "tcp_sequence" && one.parent);
  must(span, "the trace has no link by TCP sequences");
  const parent = trace.spans.find((one) => one.span_id === span.parent);
  await open(`/trace/${best.id}`, "span");
  const row = page.locator(`[data-span-id="${span.span_id}"][role=treeitem]`);
  await row.scrollIntoViewIfNeeded();
  await row.click();
  await page.waitForSelector(`[data-testid=details][data-span-id="${span.span_id}"]`);
  const said = await page.innerText("[data-testid=evidence]");
  const wanted = `Child of ${parent.operation} (${parent.service}) because both sides carry TCP sequences ${span.request_tcp_seq}/${span.response_tcp_seq} — certain`;
  must(
    said.replaceAll(/\s+/g, " ").includes(wanted.replaceAll(/\s+/g, " ")),
    `said "${said}", not "${wanted}"`,
  );
  const certainty = await page.getAttribute("[data-testid=evidence]", "data-certainty");
  must(certainty === "certain", `drawn as ${certainty}`);
  for (const attribute of span.attributes ?? []) {
    const shown = await page
      .locator(`[data-testid=attributes] tr[data-key="${attribute.key}"]`)
      .count();
    must(shown > 0, `attribute ${attribute.key} is not shown`);
  }
  must(
    new URL(page.url()).searchParams.get("span") === span.span_id,
    "the span is not in the address",
  );
  await shot("details");
});

await check("every kind of link in the trace is explained", async () => {
  const kinds = new Map();
  for (const span of trace.spans) kinds.set(span.evidence ?? "none", span);
  for (const [kind, span] of kinds) {
    await page.goto(`${base}/trace/${best.id}?span=${span.span_id}`);
    const text = await page.innerText("[data-testid=evidence]");
    must(text.length > 20, `${kind}: "${text}"`);
    const certain = span.parent && (span.confidence ?? 1) >= 0.998999;
    must(!certain || text.includes("— certain"), `${kind} is certain, the page says: ${text}`);
    must(
      !span.parent || certain || text.includes("a guess"),
      `${kind} is a guess, the page says: ${text}`,
    );
  }
});

await check("keys move, collapse and expand", async () => {
  await open(`/trace/${best.id}`, "span");
  await page.keyboard.press("j");
  await page.waitForSelector("[data-testid=details]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("[data-testid=details]", { state: "detached" });
  await page.keyboard.press("[");
  await page.waitForFunction(
    (roots) => Number(document.querySelector("[data-testid=tree]").dataset.rows) === roots,
    trace.roots.length,
  );
  await page.keyboard.press("]");
  await page.waitForFunction(
    (all) => Number(document.querySelector("[data-testid=tree]").dataset.rows) === all,
    trace.spans.length,
  );
});

await check("merged hops show both sides on one line, and still make a tree", async () => {
  await open(`/trace/${best.id}?merge=1`, "span");
  const tree = await readTree();
  wellFormed(tree);
  const hops = tree.lines.filter((line) => line.capture === "hop").length;
  must(hops > 0, "no hop was merged");
  must(
    tree.lines.length + hops === trace.spans.length,
    `${tree.lines.length} lines with ${hops} hops for ${trace.spans.length} spans`,
  );
  await shot("merged");
});

await check("the filter in the trace keeps what fits and the way to it", async () => {
  await open(`/trace/${best.id}`, "span");
  await page.keyboard.press("/");
  const wanted = trace.spans.at(-1).service;
  await page.keyboard.type(wanted);
  await page.waitForFunction(
    (all) => Number(document.querySelector("[data-testid=tree]")?.dataset.rows ?? all) < all,
    trace.spans.length,
  );
  const tree = await readTree();
  wellFormed(tree);
  must(
    tree.lines.some((line) => line.service === wanted),
    `no line of ${wanted} is left`,
  );
});

await check("an error is marked in the list and in the tree", async () => {
  await open("/?status=error", "results");
  const failed = (await listed()).find((one) => one.errors > 0);
  must(failed, "no failed trace in the last hour");
  await open(`/trace/${failed.id}`, "span");
  const tree = await readTree();
  const line = tree.lines.find((one) => one.error === "true");
  must(line, "no line is marked as failed");
  await page.goto(`${base}/trace/${failed.id}?span=${line.spanId}`);
  await page.waitForSelector("[data-testid=span-error]");
  await shot("error");
});

await check("the jump box finds a trace by the id of a span", async () => {
  await open("/", "results");
  await page.keyboard.press("g");
  await page.keyboard.type(`seen in ${trace.spans[0].span_id}`);
  await page.keyboard.press("Enter");
  await page.waitForSelector(`[data-testid=trace][data-trace-id="${trace.trace_id}"]`);
});

await check("an unknown trace gets an answer that helps", async () => {
  await open(`/trace/${"0".repeat(31)}1`, "blank");
  const text = await page.innerText("[data-testid=blank]");
  must(text.includes("No such trace"), text);
});

await check("the map draws the calls and lists them", async () => {
  await open("/map", "edges");
  const graph = await api("graph?start=-1h&end=now");
  const edges = await page.$$eval("[data-testid=edges] tbody tr", (rows) =>
    rows.map((row) => ({ ...row.dataset })),
  );
  must(edges.length >= minServices - 1, `${edges.length} calls listed`);
  must(graph.nodes.length >= minServices, `${graph.nodes.length} services on the map`);
  must((await page.locator(".map-canvas canvas").count()) > 1, "the map has no canvas");
  await page.mouse.move(5, 5);
  await page.waitForTimeout(500);
  await shot("map");
  await page.locator("[data-testid=edges] tbody tr").first().click();
  await page.waitForSelector("[data-testid=edge-panel]");
  must(new URL(page.url()).searchParams.has("edge"), "the chosen call is not in the address");
});

await check("the map stays right in another theme and another size", async () => {
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

await check("the status tells the agent's state", async () => {
  await open("/status", "status");
  const state = await page.getAttribute("[data-testid=status]", "data-agent");
  const status = await api("status");
  must(state === status.agent.state, `page: ${state}, API: ${status.agent.state}`);
  await shot("status");
});

await check("nothing broke silently", async () => {
  must(complaints.length === 0, complaints.slice(0, 5).join("\n"));
});

await browser.close();
rmSync(profile, { recursive: true, force: true });
console.log(`${results.passed} passed, ${results.failed} failed; screenshots in ${out}`);
process.exit(results.failed === 0 ? 0 : 1);
