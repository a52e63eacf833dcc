/** Accessibility of every page, in both themes, on a desktop and on a phone. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { DESKTOP, must, PHONE } from "./harness.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** WCAG 2.2 requires 24 pixels. */
const LEAST_TARGET = 24;

async function violations(page) {
  // Not added as a script element, because the page's content security policy forbids that.
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const { violations: found } = await window.axe.run(document, { resultTypes: ["violations"] });
    return found
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes.map((one) => one.target.join(" ")).slice(0, 4)}`);
  });
}

/** Elements to press that are too small for a finger. */
const smallTargets = (page) =>
  page.evaluate((least) => {
    const all = document.querySelectorAll("a[href], button, input, select, summary");
    return [...all].flatMap((one) => {
      // A click on its label does what one on a box to tick does.
      const box = (one.closest("label") ?? one).getBoundingClientRect();
      const hidden = !one.checkVisibility() || one.closest("[aria-hidden=true]") || one.disabled;
      // A link within a sentence is as high as its line of text. A box of the flame graph is as
      // wide as its span is long, and one of the tree map as its time; the lists of spans and of
      // operations lead to the same spans (WCAG 2.2, 2.5.8).
      const inline = getComputedStyle(one).display === "inline";
      const drawn = one.closest("[data-testid=flame], [data-testid=tree-map]") !== null;
      if (hidden || inline || drawn || (box.width >= least && box.height >= least)) return [];
      return [`${one.className || one.textContent} ${box.width}×${box.height}`];
    });
  }, LEAST_TARGET);

/** Numbers in a table that do not fit their cells. */
const cutFigures = (page) =>
  page.$$eval("table td.number", (all) =>
    all
      .filter((one) => one.clientWidth > 0 && one.scrollWidth > one.clientWidth)
      .map((one) => one.textContent)
      .slice(0, 4),
  );

export async function looksChecks(t) {
  const { page } = t;
  const failed = (await t.api("search?status=error&limit=1&start=-6h")).traces[0];
  const pages = [
    ["overview", "/", "services"],
    ["search", "/search?status=error", "results"],
    [
      "search with conditions",
      "/search?attribute=a>=5&attribute=%3Db&min=1ms&start=-6h",
      "scatter",
    ],
    ["trace", `/trace/${t.best.id}`, "span"],
    ["flame", `/trace/${t.best.id}?view=flame`, "flame", "once"],
    ["operations", `/trace/${t.best.id}?view=operations`, "operation-table", "once"],
    ["tree-map", `/trace/${t.best.id}?view=map`, "tree-map", "once"],
    ["path", `/trace/${t.best.id}?view=path`, "path-table", "once"],
    ["hops", `/trace/${t.best.id}?view=hops`, "hops", "once"],
    [
      "compare",
      `/trace/${t.best.id}?view=compare&with=${failed.trace_id}`,
      "compare-table",
      "once",
    ],
    ["file", "/trace/file", "file", "once"],
    ["service", `/service/${encodeURIComponent(t.best.services[0])}`, "errors", "once"],
    ["heat", "/search?chart=heat", "heat", "once"],
    ["traceql", "/search?q=%7B%20status%20%3D%20error%20%7D", "results", "once"],
    ["groups", "/search?q=%7B%20%7D&group=resource.service.name", "groups", "once"],
    [
      "different",
      "/search?q=%7B%20status%20%3D%20error%20%7D&differ=query",
      "different-sum",
      "once",
    ],
    ["details", `/trace/${failed.trace_id}`, "span"],
    ["map", "/map", "picture"],
    ["map-groups", "/map?group=word&differ=1&back=1", "map", "once"],
    ["chains", "/chains", "chains"],
    ["dependencies", "/dependencies", "dependencies", "once"],
    ["entrances", "/entrances", "entrances", "once"],
    [
      "sources",
      `/sources?service=${encodeURIComponent(t.best.services[0])}`,
      "sources-sum",
      "once",
    ],
    ["bottlenecks", "/bottlenecks", "shares", "once"],
    ["capacity", "/capacity?scale=*%3D2x", "loads"],
    ["live", "/live", "live-page"],
    ["status", "/status", "status"],
    ["nothing", `/trace/${"0".repeat(31)}1`, "blank"],
  ];
  for (const [form, size] of [
    ["desktop", DESKTOP],
    ["phone", PHONE],
  ]) {
    for (const scheme of ["light", "dark"]) {
      await t.check(`axe finds nothing serious: ${form}, ${scheme}`, async () => {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme: scheme });
        const wrong = [];
        for (const [name, path, testid, once] of pages) {
          // Each size and each theme once is enough for what is made of the same parts.
          if (once && (form === "desktop") !== (scheme === "light")) continue;
          await t.open(path, testid);
          if (name === "details") {
            await page.keyboard.press("e");
            await page.waitForSelector("[data-testid=details]");
          }
          await page.waitForTimeout(200);
          for (const one of await violations(page)) wrong.push(`${name}: ${one}`);
          if (form === "phone") {
            const wide = await page.evaluate(() => document.documentElement.scrollWidth);
            if (wide > PHONE.width) wrong.push(`${name} is ${wide} px wide`);
            for (const one of await smallTargets(page)) wrong.push(`${name}: ${one} is small`);
            for (const one of await cutFigures(page)) wrong.push(`${name}: ${one} is cut`);
          }
          await page.screenshot({
            path: `${t.out}/${form}-${name.replaceAll(" ", "-")}-${scheme}.png`,
          });
        }
        must(wrong.length === 0, wrong.join("\n"));
      });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(DESKTOP);

  await t.check("who wants more contrast has it, in both themes", async () => {
    const contrast = () =>
      page.evaluate(() => {
        // The browser writes every colour as rgb(…).
        const probe = document.body.appendChild(document.createElement("i"));
        const light = (name) => {
          probe.style.color = `var(${name})`;
          const parts = getComputedStyle(probe).color.match(/\d+/g).slice(0, 3);
          const [r, g, b] = parts.map((text) => {
            const part = Number(text) / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = light("--surface");
        // WCAG's ratio.
        const ratio = (ink) => (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
        const least = Math.min(
          ...["--ink", "--ink-2", "--ink-3", "--accent", "--error", "--warn"].map((name) =>
            ratio(light(name)),
          ),
        );
        probe.remove();
        return least;
      });
    await t.open("/status", "status");
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme, contrast: "no-preference" });
      const usual = await contrast();
      await page.emulateMedia({ colorScheme, contrast: "more" });
      const more = await contrast();
      must(more >= 7 && more > usual, `${colorScheme}: ${more}, otherwise ${usual}`);
      await page.screenshot({ path: `${t.out}/contrast-${colorScheme}.png` });
    }
    await page.emulateMedia({ colorScheme: "light", contrast: "no-preference" });
  });
}
