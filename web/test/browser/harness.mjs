/** The browser, and the counting of checks. */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const PATIENCE = 15_000;
export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

export function must(condition, message) {
  if (!condition) throw new Error(message);
}

/** Opens Chromium at a server, and returns the tools of the checks. */
export async function start(base, out) {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  if (!existsSync(executablePath)) {
    console.error(`${executablePath} is missing: install chromium, or name it in CHROMIUM`);
    process.exit(2);
  }
  mkdirSync(out, { recursive: true });
  const profile = mkdtempSync(join(tmpdir(), "spanwise-browser-"));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath,
    // `true` would select Playwright's own, old headless mode.
    headless: false,
    viewport: DESKTOP,
    colorScheme: "light",
    // An offset with half an hour reveals mixed-up time zones.
    timezoneId: "Asia/Kolkata",
    args: [
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      // The browser's own background requests would be traced as well.
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ],
  });
  const page = browser.pages()[0] ?? (await browser.newPage());
  page.setDefaultTimeout(PATIENCE);
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`exception: ${error.message}`));
  page.on("console", (message) => {
    // A check requests a missing trace on purpose, and the browser logs every 404.
    if (message.type() === "error" && !message.text().includes("404"))
      complaints.push(message.text());
  });

  const results = { passed: 0, failed: 0 };
  const tools = {
    base,
    out,
    page,
    complaints,
    results,
    minServices: Number(process.env.MIN_SERVICES ?? 5),
    /** Results of one check for later checks. */
    best: null,
    trace: null,
    async check(name, body) {
      const begun = Date.now();
      try {
        await body();
        results.passed++;
        console.log(`ok    ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
      } catch (error) {
        results.failed++;
        const said = String(error.message ?? error)
          .split("\n")
          .slice(0, 6);
        console.log(`FAIL  ${name}\n      ${said.join("\n      ")}`);
        const text = await page.evaluate(() => document.body.innerText).catch(() => "");
        console.log(`      ${page.url()} shows: ${text.replace(/\s+/g, " ").slice(0, 800)}`);
        await page.screenshot({ path: join(out, `failed-${results.failed}.png`) }).catch(() => {});
      }
      // Ends what the check did to the page's requests.
      await page.unrouteAll({ behavior: "ignoreErrors" });
    },
    async api(path) {
      const response = await fetch(`${base}/api/v1/${path}`, {
        headers: { "spanwise-request": "test" },
      });
      if (!response.ok) {
        const said = (await response.text()).slice(0, 200);
        throw new Error(`GET ${path}: HTTP ${response.status} ${said}`);
      }
      return response.json();
    },
    /** Changes the API's answers to the page. */
    async alter(glob, change) {
      await page.route(glob, async (route) => {
        const response = await route.fetch();
        const json = await response.json();
        await route.fulfill({ response, json: (await change(json)) ?? json });
      });
    },
    async open(path, testid) {
      await page.goto(`${base}${path}`);
      await page.waitForSelector(`[data-testid=${testid}]`);
    },
    async shot(name) {
      for (const scheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: scheme });
        // Canvases are drawn again, and the map comes to rest.
        await page.waitForTimeout(350);
        await page.screenshot({ path: join(out, `${name}-${scheme}.png`) });
      }
      await page.emulateMedia({ colorScheme: "light" });
    },
    listed: () =>
      page.$$eval("[data-testid=result]", (rows) =>
        rows.map((row) => ({
          id: row.dataset.traceId,
          services: row.dataset.services.split(" "),
          spans: Number(row.dataset.spans),
          errors: Number(row.dataset.errors),
          duration: Number(row.dataset.duration),
          start: row.dataset.start,
        })),
      ),
    searched: () => page.waitForSelector("main.search[data-loading=false]"),
    param: (name) => new URL(page.url()).searchParams.get(name),
    async end() {
      await browser.close();
      rmSync(profile, { recursive: true, force: true });
      console.log(`${results.passed} passed, ${results.failed} failed; screenshots in ${out}`);
      process.exit(results.failed === 0 ? 0 : 1);
    },
  };
  return tools;
}

/** Reads every line of the tree. The tree is virtual, so the page is scrolled while reading. */
export async function readTree(page) {
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

/** Checks that parents come before their children, one level above them. */
export function wellFormed({ lines, announced }) {
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
