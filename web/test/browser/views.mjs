/** The views of a trace, its files, and the comparison of two. */
import { readFileSync } from "node:fs";
import { must } from "./harness.mjs";

export async function viewsChecks(t) {
  const { page } = t;
  const trace = await t.api(`traces/${t.best.id}`);
  const shown = (view) => t.open(`/trace/${t.best.id}?view=${view}`, view);

  await t.check("operations count every span once, and a name leads to its spans", async () => {
    await t.open(`/trace/${t.best.id}`, "tree");
    await page.click("[data-testid=view-operations]");
    await page.waitForSelector("[data-testid=operation-table]");
    const counts = await page.$$eval("[data-testid=operation-table] tbody tr", (rows) =>
      rows.map((row) => Number(row.dataset.count)),
    );
    const sum = counts.reduce((all, one) => all + one, 0);
    must(
      sum === trace.spans.length,
      `${sum} spans in the table, ${trace.spans.length} in the trace`,
    );
    await t.shot("operations");
    await page.locator("[data-testid=operation-table] .link").first().click();
    await page.waitForSelector("[data-testid=span]");
    must(t.param("q") !== null && t.param("view") === null, page.url());
    await page.goBack();
    await page.waitForSelector("[data-testid=operation-table]");
  });

  await t.check("the flame graph zooms into a call, and Back returns", async () => {
    await shown("flame");
    const boxes = () => page.getAttribute("[data-testid=flame]", "data-boxes").then(Number);
    const all = await boxes();
    must(all > 1, `${all} boxes`);
    await t.shot("flame");
    await page.locator("[data-testid=flame] .box").last().click();
    await page.waitForURL((url) => url.searchParams.has("box"));
    must((await boxes()) < all, "it did not zoom");
    await page.goBack();
    await page.waitForFunction(
      (wanted) => Number(document.querySelector("[data-testid=flame]").dataset.boxes) === wanted,
      all,
    );
  });

  await t.check("the tree map has the own time of all operations, and leads to spans", async () => {
    await t.open(`/trace/${t.best.id}?view=map`, "tree-map");
    const boxes = await page.$$eval("[data-testid=tree-map] .box", (all) =>
      all.map((one) => {
        const { width, height } = one.getBoundingClientRect();
        return [Number(one.dataset.share), width * height];
      }),
    );
    const shares = boxes.reduce((sum, [share]) => sum + share, 0);
    must(shares > 0.9 && shares < 1.001, `shares add up to ${shares}`);
    const whole = boxes.reduce((sum, [, area]) => sum + area, 0);
    for (const [share, area] of boxes) {
      must(Math.abs(area / whole - share / shares) < 0.02, `${area / whole} of it for ${share}`);
    }
    await t.shot("tree-map");
    await page.locator("[data-testid=tree-map] .box").first().click();
    await page.waitForSelector("[data-testid=span]");
    must(t.param("view") === null && t.param("q") !== null, page.url());
  });

  await t.check("hops have parts that add up to the call, in bars and in words", async () => {
    await t.open(`/trace/${t.best.id}?view=hops`, "hops");
    const hops = await page.$$eval("[data-testid=hops] li", (all) =>
      all.map((one) => [
        one.dataset.hop,
        Number(one.dataset.total),
        Number(one.dataset.sum),
        one.querySelector("p").textContent,
      ]),
    );
    must(hops.length > 0, "no hop");
    const spans = new Map(trace.spans.map((span) => [span.span_id, span]));
    for (const [id, total, sum, words] of hops) {
      must(Number(spans.get(id).duration_nano) === total, `${id}: ${total}`);
      must(sum === total, `${id}: parts are ${sum} of ${total}`);
      must(/ in .+\.$/.test(words), `${id}: ${words}`);
    }
    await t.shot("hops");
    await page.click("button:has-text('Longest first')");
    await page.waitForURL((url) => url.searchParams.get("by") === "total");
    const totals = await page.$$eval("[data-testid=hops] li", (all) =>
      all.map((one) => Number(one.dataset.total)),
    );
    must(
      totals.every((one, at) => at === 0 || one <= totals[at - 1]),
      `not sorted: ${totals}`,
    );
    await page.locator("[data-testid=hops] .link").first().click();
    await page.waitForSelector("[data-testid=details]");
  });

  await t.check("paper has every line of the trace, and no controls", async () => {
    await t.open(`/trace/${t.best.id}`, "tree");
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    await page.waitForFunction(
      () =>
        document.querySelectorAll("[role=treeitem]").length ===
        Number(document.querySelector("[data-testid=tree]").dataset.rows),
    );
    const hidden = await page.$eval(".topbar", (one) => getComputedStyle(one).display);
    must(hidden === "none", "the menu is printed");
    const ground = await page.$eval("body", (one) => getComputedStyle(one).backgroundColor);
    must(ground === "rgb(255, 255, 255)", `the paper is ${ground}`);
    await page.screenshot({ path: `${t.out}/print.png`, fullPage: true });
    await page.emulateMedia({ media: "screen", colorScheme: "light" });
  });

  await t.check("the critical path is explained, and drawn over the waterfall", async () => {
    await t.open(`/trace/${t.best.id}?view=path`, "path-table");
    const steps = Number(await page.getAttribute("[data-testid=path-table]", "data-steps"));
    must(steps > 0 && steps <= trace.spans.length, `${steps} spans on the path`);
    await page.click("text=Draw it on the waterfall");
    await page.waitForSelector(".on-path");
    await t.shot("critical-path");
    await page.keyboard.press("c");
    await page.waitForFunction(() => document.querySelector(".on-path") === null);
  });

  await t.check("found spans are visited in turn", async () => {
    const name = trace.spans[0].operation;
    await t.open(`/trace/${t.best.id}?q=${encodeURIComponent(name)}`, "span");
    const first = [];
    for (let at = 0; at < 2; at++) {
      await page.keyboard.press("n");
      await page.waitForFunction(
        (before) => new URL(location.href).searchParams.get("span") !== before,
        first.at(-1) ?? null,
      );
      first.push(t.param("span"));
      const rest = trace.spans.filter((span) => span.operation === name).length;
      if (rest < 2) return;
    }
    await page.keyboard.press("N");
    await page.waitForURL((url) => url.searchParams.get("span") === first[0]);
  });

  await t.check(
    "a trace is downloaded in three formats, and each is the same tree again",
    async () => {
      for (const format of ["otlp", "jaeger", "zipkin"]) {
        await t.open(`/trace/${t.best.id}`, "export");
        await page.click("[data-testid=export]");
        const [download] = await Promise.all([
          page.waitForEvent("download"),
          page.click(`[data-testid=download-${format}]`),
        ]);
        const path = await download.path();
        must(readFileSync(path, "utf8").length > 100, `${format}: an empty file`);
        await t.open("/trace/file", "file");
        await page.setInputFiles("[data-testid=file]", path);
        await page.waitForSelector("[data-testid=trace-spans]");
        const spans = Number((await page.innerText("[data-testid=trace-spans]")).replace(",", ""));
        must(spans === trace.span_count, `${format}: ${spans} spans, not ${trace.span_count}`);
        const depth = Number(await page.innerText("[data-testid=trace-depth]"));
        must(depth === trace.depth, `${format}: ${depth} levels, not ${trace.depth}`);
      }
    },
  );

  await t.check("a file that is none is refused with a reason", async () => {
    await t.open("/trace/file", "file");
    await page.setInputFiles("[data-testid=file]", {
      name: "notes.json",
      mimeType: "application/json",
      buffer: Buffer.from('{"hello": 1}'),
    });
    const said = await page.innerText("[data-testid=file-problem]");
    must(said.includes("OTLP") && said.includes("resourceSpans"), said);
  });

  await t.check("two traces are compared as one tree", async () => {
    const { traces } = await t.api("search?limit=20&sort=largest");
    const other = traces.find((one) => one.trace_id !== t.best.id && one.spans < 10_000);
    must(other, "there is no other trace");
    await t.open(`/trace/${t.best.id}?view=compare`, "compare-id");
    await page.fill("[data-testid=compare-id]", "not an id");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#compare-problem");
    await page.fill("[data-testid=compare-id]", other.trace_id);
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-testid=compare-table] tbody tr");
    must(t.param("with") === other.trace_id, page.url());
    await t.shot("compare");
    await page.goto(`${t.base}/trace/${t.best.id}?view=compare&with=${t.best.id}`);
    await page.waitForSelector("[data-testid=compare-table] tbody tr");
    const verdicts = await page.$$eval("[data-testid=compare-table] tbody tr", (rows) =>
      rows.map((row) => row.dataset.verdict),
    );
    must(
      verdicts.every((one) => one === "same"),
      `a trace differs from itself: ${verdicts.join(" ")}`,
    );
  });

  await t.check("a trace is compared with the usual one of its first request", async () => {
    const { traces } = await t.api("search?limit=200");
    const plain = traces.filter((one) => one.root && one.errors === 0 && one.spans < 10_000);
    const begins = ({ root }) => `${root.service} ${root.operation}`;
    const group = plain
      .map((first) => plain.filter((one) => begins(one) === begins(first)))
      .sort((a, b) => b.length - a.length)[0];
    must(group?.length > 1, "no two traces begin alike");
    // The newest has the others in the hour before it.
    const { trace_id: id, root } = group[0];
    await t.open(`/trace/${id}?view=compare`, "compare-usual");
    await page.click("[data-testid=compare-usual]");
    await page.waitForSelector("[data-testid=compare-table] tbody tr");
    const other = t.param("with");
    must(other !== null && other !== id, page.url());
    const { spans } = await t.api(`traces/${other}`);
    must(
      spans[0].service === root.service && spans[0].operation === root.operation,
      `the usual trace begins with ${spans[0].service} ${spans[0].operation}`,
    );
    await t.shot("compare-usual");
  });
}
