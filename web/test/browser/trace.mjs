/** The trace page: the tree, the details, and traces of more than one page. */
import { must, readTree, wellFormed } from "./harness.mjs";

export async function traceChecks(t) {
  const { page, base } = t;
  await t.check("a trace opens by a click and its tree is whole", async () => {
    await t.open(`/search?limit=500&service=${encodeURIComponent(t.best.services[0])}`, "result");
    await page.click(`[data-testid=result][data-trace-id="${t.best.id}"]`);
    await page.waitForURL((url) => url.pathname === `/trace/${t.best.id}`);
    t.trace = await t.api(`traces/${t.best.id}`);
    const tree = await readTree(page);
    wellFormed(tree);
    must(
      tree.lines.length === t.trace.spans.length,
      `${tree.lines.length} lines for ${t.trace.spans.length} spans`,
    );
    const parents = new Map(t.trace.spans.map((span) => [span.span_id, span.parent ?? ""]));
    for (const line of tree.lines) {
      must(
        parents.get(line.spanId) === line.parentId,
        `${line.spanId} hangs under "${line.parentId}", the API says "${parents.get(line.spanId)}"`,
      );
    }
    const services = new Set(tree.lines.map((line) => line.service));
    must(services.size >= t.minServices, `${services.size} services: ${[...services].join(", ")}`);
    for (const line of tree.lines) {
      must(
        ["app", "client-process", "server-process", "client-nic", "server-nic"].includes(
          line.capture,
        ),
        `${line.spanId} has no capture point, but "${line.capture}"`,
      );
    }
    await t.shot("trace");
  });

  await t.check("the details say why a span hangs where it hangs", async () => {
    const span = t.trace.spans.find((one) => one.evidence === "tcp_sequence" && one.parent);
    must(span, "the trace has no link by TCP sequences");
    const parent = t.trace.spans.find((one) => one.span_id === span.parent);
    await t.open(`/trace/${t.best.id}`, "span");
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
    await t.shot("details");
  });

  await t.check("every kind of link in the trace is explained", async () => {
    const kinds = new Map();
    for (const span of t.trace.spans) kinds.set(span.evidence ?? "none", span);
    for (const [kind, span] of kinds) {
      await page.goto(`${base}/trace/${t.best.id}?span=${span.span_id}`);
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

  await t.check("keys move, collapse and expand", async () => {
    await t.open(`/trace/${t.best.id}`, "span");
    await page.keyboard.press("j");
    await page.waitForSelector("[data-testid=details]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("[data-testid=details]", { state: "detached" });
    await page.keyboard.press("[");
    await page.waitForFunction(
      (roots) => Number(document.querySelector("[data-testid=tree]").dataset.rows) === roots,
      t.trace.roots.length,
    );
    await page.keyboard.press("]");
    await page.waitForFunction(
      (all) => Number(document.querySelector("[data-testid=tree]").dataset.rows) === all,
      t.trace.spans.length,
    );
  });

  await t.check("merged hops show both sides on one line, and still make a tree", async () => {
    await t.open(`/trace/${t.best.id}?merge=1`, "span");
    const tree = await readTree(page);
    wellFormed(tree);
    const hops = tree.lines.filter((line) => line.capture === "hop").length;
    must(hops > 0, "no hop was merged");
    must(
      tree.lines.length + hops === t.trace.spans.length,
      `${tree.lines.length} lines with ${hops} hops for ${t.trace.spans.length} spans`,
    );
    await t.shot("merged");
  });

  await t.check("the filter in the trace keeps what fits and the way to it", async () => {
    await t.open(`/trace/${t.best.id}`, "span");
    await page.keyboard.press("/");
    const wanted = t.trace.spans.at(-1).service;
    await page.keyboard.type(wanted);
    await page.waitForFunction(
      (all) => Number(document.querySelector("[data-testid=tree]")?.dataset.rows ?? all) < all,
      t.trace.spans.length,
    );
    const tree = await readTree(page);
    wellFormed(tree);
    must(
      tree.lines.some((line) => line.service === wanted),
      `no line of ${wanted} is left`,
    );
  });

  await t.check("an error is marked in the list and in the tree", async () => {
    await t.open("/search?status=error", "results");
    const failed = (await t.listed()).find((one) => one.errors > 0);
    must(failed, "no failed trace in the last hour");
    await t.open(`/trace/${failed.id}`, "span");
    const tree = await readTree(page);
    const line = tree.lines.find((one) => one.error === "true");
    must(line, "no line is marked as failed");
    await page.goto(`${base}/trace/${failed.id}?span=${line.spanId}`);
    await page.waitForSelector("[data-testid=span-error]");
    await t.shot("error");
  });

  await t.check("the jump box finds a trace by the id of a span", async () => {
    await t.open("/search", "results");
    await page.keyboard.press("g");
    await page.keyboard.type(`seen in ${t.trace.spans[0].span_id}`);
    await page.keyboard.press("Enter");
    await page.waitForSelector(`[data-testid=trace][data-trace-id="${t.trace.trace_id}"]`);
  });

  await t.check("an unknown trace gets an answer that helps", async () => {
    await t.open(`/trace/${"0".repeat(31)}1`, "blank");
    await page.waitForSelector("[data-testid=blank]:has-text('No such trace')");
  });

  await t.check("the tab is named after operation and trace", async () => {
    await t.open(`/trace/${t.best.id}`, "trace");
    const [root] = t.trace.spans;
    const wanted = `${root.service} ${root.operation} — ${t.best.id.slice(0, 4)}… — Spanwise`;
    must((await page.title()) === wanted, `"${await page.title()}", not "${wanted}"`);
  });

  await t.check("no two services of a trace have one colour", async () => {
    await t.open(`/trace/${t.best.id}`, "trace");
    const colours = await page.$$eval(".sum-legend .swatch", (all) =>
      all.map((one) => getComputedStyle(one).backgroundColor),
    );
    must(colours.length === t.trace.services.length, `${colours.length} colours`);
    must(new Set(colours).size === colours.length, colours.join(" "));
  });

  await t.check("an answer of 4xx reddens who gave it, and unknown is not fine", async () => {
    const server = t.trace.spans.find((one) => one.kind === "server" && one.status !== "error");
    const other = t.trace.spans.find((one) => one !== server && one.status !== "error");
    await t.alter("**/api/v1/traces/*", ({ spans }) => {
      const at = (id) => spans.find((one) => one.span_id === id);
      Object.assign(at(server.span_id), { status: "unset", status_code: 404 });
      Object.assign(at(other.span_id), { status: "unknown", status_code: undefined });
    });
    await t.open(`/trace/${t.best.id}?span=${server.span_id}`, "details");
    const row = page.locator(`#span-${server.span_id}`);
    must((await row.getAttribute("data-error")) === "true", "the line is not red");
    must((await row.innerText()).includes("404 Not Found"), await row.innerText());
    must((await page.innerText("[data-testid=span-error]")).includes("404 Not Found"), "details");
    await page.goto(`${base}/trace/${t.best.id}?span=${other.span_id}`);
    await page.waitForSelector("[data-testid=span-unknown]");
    must((await page.innerText(`#span-${other.span_id}`)).includes("unknown"), "line of unknown");
  });

  let large = null;

  await t.check("a trace of many pages is whole: totals, ruler, download", async () => {
    const { traces } = await t.api("search?sort=largest&limit=1&start=-6h");
    large = traces[0];
    must(large?.spans > 20_000, `the largest trace has ${large?.spans} spans: too few for this`);
    await t.open(`/trace/${large.trace_id}`, "span");
    const number = async (name) =>
      Number((await page.innerText(`[data-testid=${name}]`)).replace(/\D/g, ""));
    const response = await fetch(
      base + (await page.getAttribute("[data-testid=download]", "href")),
    );
    must(response.headers.get("content-disposition")?.startsWith("attachment"), "no attachment");
    const { spans } = await response.json();
    const failed = spans.filter((one) => one.status === "error").length;
    must(spans.length === large.spans, `${spans.length} of ${large.spans} downloaded`);
    must((await number("trace-spans")) === spans.length, "spans");
    must((await number("trace-errors")) === failed, "errors");
    const depth = Math.max(...spans.map((one) => one.depth)) + 1;
    must((await number("trace-depth")) === depth, `${await number("trace-depth")} is not ${depth}`);
    const ruler = await page.locator(".ruler").boundingBox();
    must(ruler.height >= 20, `the ruler is ${ruler.height} px high`);
    large.list = spans;
    await t.shot("large");
  });

  /** The line at the top of the view, and its distance from the top. */
  const topLine = () =>
    page.evaluate(() => {
      const box = document.querySelector("[data-testid=tree]").getBoundingClientRect();
      const row = [...document.querySelectorAll("[role=treeitem]")].find(
        (one) => one.getBoundingClientRect().top >= box.top,
      );
      return { id: row.dataset.spanId, top: row.getBoundingClientRect().top };
    });
  const loaded = () =>
    page.evaluate(() => {
      const bar = document.querySelector("[data-testid=progress]")?.dataset;
      return bar ? [Number(bar.first), Number(bar.to)] : null;
    });

  await t.check("scrolling alone goes through all of it, without a jump", async () => {
    await t.open(`/trace/${large.trace_id}`, "span");
    for (let pages = 0; pages < 10 && (await loaded()) !== null; pages++) {
      const before = (await loaded())[1];
      const top = await page.evaluate(async () => {
        const box = document.querySelector("[data-testid=tree]");
        box.scrollTop = box.scrollHeight - box.clientHeight - 400;
        await new Promise((done) => setTimeout(done, 50));
        return box.scrollTop;
      });
      await page.waitForFunction((to) => {
        const bar = document.querySelector("[data-testid=progress]");
        return !bar || Number(bar.dataset.to) > to;
      }, before);
      const now = await page.evaluate(() => document.querySelector("[data-testid=tree]").scrollTop);
      must(Math.abs(now - top) < 1, `it jumped from ${top} to ${now}`);
    }
    must((await loaded()) === null, "not all came");
    const rows = Number(await page.getAttribute("[data-testid=tree]", "data-rows"));
    must(rows === large.spans, `${rows} lines for ${large.spans} spans`);
  });

  await t.check("what is collapsed is not fetched for nothing", async () => {
    await t.open(`/trace/${large.trace_id}`, "span");
    await page.keyboard.press("[");
    await page.waitForSelector('[data-testid=tree][data-rows="1"]');
    await page.waitForSelector("[data-testid=progress] button");
    const [, to] = await loaded();
    must(to < large.spans, `all ${to} spans were fetched for one line`);
    await page.click("[data-testid=progress] button");
    await page.waitForFunction(
      (before) =>
        Number(document.querySelector("[data-testid=progress]")?.dataset.to ?? Infinity) > before,
      to,
    );
  });

  await t.check("any span is found by its id, and what is before it by scrolling up", async () => {
    const span = large.list.at(-3000);
    await t.open("/search", "results");
    await page.keyboard.press("g");
    await page.keyboard.type(span.span_id);
    await page.keyboard.press("Enter");
    await page.waitForSelector(`[data-testid=details][data-span-id="${span.span_id}"]`);
    await page.waitForSelector(`#span-${span.span_id}[aria-selected=true]`);
    const [first] = await loaded();
    must(first > 0, "the page before was loaded too");
    const line = await page.getAttribute(`#span-${span.span_id}`, "aria-level");
    must(Number(line) === span.depth + 1, `level ${line} for depth ${span.depth}`);
    await page.evaluate(() => (document.querySelector("[data-testid=tree]").scrollTop = 1500));
    await page.waitForTimeout(30);
    const before = await topLine();
    await page.waitForFunction(
      (from) => Number(document.querySelector("[data-testid=progress]")?.dataset.first ?? 0) < from,
      first,
    );
    await page.waitForTimeout(150);
    const after = await topLine();
    must(after.id === before.id, "the lines moved");
    must(Math.abs(after.top - before.top) < 1, `${before.top} became ${after.top}`);
  });

  await t.check("a span that the trace has not is said to be none of it", async () => {
    await t.open(`/trace/${large.trace_id}?span=0123456789abcdef`, "missing-span");
    await page.waitForSelector("[data-testid=span]");
  });

  await t.check("a filter looks through spans that are not loaded yet", async () => {
    const span = large.list.at(-10);
    await t.open(`/trace/${large.trace_id}?q=${span.span_id}`, "trace");
    await page.waitForSelector(`#span-${span.span_id}`, { timeout: 30_000 });
  });
}
