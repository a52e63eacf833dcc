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
      const box = one.getBoundingClientRect();
      const hidden = box.width === 0 || one.closest("[aria-hidden=true]") || one.disabled;
      // A link within a sentence is as high as its line of text.
      const inline = getComputedStyle(one).display === "inline";
      if (hidden || inline || (box.width >= least && box.height >= least)) return [];
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
    ["search", "/?status=error", "results"],
    ["search with conditions", "/?attribute=a>=5&attribute=%3Db&min=1ms&start=-6h", "scatter"],
    ["trace", `/trace/${t.best.id}`, "span"],
    ["details", `/trace/${failed.trace_id}`, "span"],
    ["map", "/map", "picture"],
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
        for (const [name, path, testid] of pages) {
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
}
