/** The search page: filters, orders, keys, and the state that Back restores. */
import { must } from "./harness.mjs";

export async function searchChecks(t) {
  const { page } = t;
  await t.check("search lists traces and draws their durations", async () => {
    await t.open("/search?limit=500", "result");
    const traces = await t.listed();
    must(traces.length > 0, "no trace in the list");
    const points = Number(await page.getAttribute("[data-testid=scatter]", "data-points"));
    must(points === traces.length, `${points} points for ${traces.length} traces`);
    must((await page.locator(".scatter canvas").count()) === 1, "the scatter has no canvas");
    t.best = traces.sort((a, b) => b.services.length - a.services.length || a.spans - b.spans)[0];
    must(
      t.best.services.length >= t.minServices,
      `no trace crosses ${t.minServices} services; the widest has ${t.best.services.join(", ")}`,
    );
    await t.shot("search");
  });

  await t.check("older traces follow those listed, none twice and none left out", async () => {
    // The browser itself is traced, and resolves names meanwhile. Traces that existed before and
    // still exist have to be listed.
    const stored = async () => {
      const query = "SELECT DISTINCT assembled_trace_id FROM spans";
      const { rows } = await t.api(`sql?query=${encodeURIComponent(query)}`);
      // The newest spans are not assembled yet and have no trace.
      return new Set(rows.map(([id]) => id).filter((id) => id !== null));
    };
    const before = await stored();
    await t.open("/search?limit=50", "results");
    const seen = new Set();
    let last = [];
    for (let pages = 0; pages < 100; pages++) {
      // A page begins at the time at which the page before ended, with all traces of that time.
      const listed = await t.listed();
      const ids = listed.map((one) => one.id).filter((id) => !last.includes(id));
      const twice = ids.find((id) => seen.has(id));
      must(twice === undefined, `trace ${twice} is listed twice`);
      for (const id of ids) seen.add(id);
      const oldest = listed.at(-1)?.start;
      last = listed.filter((one) => one.start === oldest).map((one) => one.id);
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

  await t.check("the service filter narrows the list and stands in the address", async () => {
    await t.open("/search", "result");
    await page.keyboard.press("/");
    const focused = await page.evaluate(() => document.activeElement?.dataset.testid);
    must(focused === "service", "the key / did not focus the service field");
    const names = await page.$$eval("[role=option]", (all) => all.map((one) => one.dataset.value));
    must(
      names.length >= t.minServices,
      `only ${names.length} services offered: ${names.join(", ")}`,
    );
    const wanted = process.env.SERVICE ?? (names.includes("payments") ? "payments" : names.at(-1));
    await page.keyboard.type(wanted);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.searchParams.get("service") === wanted);
    await page.waitForSelector("[data-testid=result], [data-testid=blank]");
    await page.waitForSelector("main.search[data-loading=false]");
    const traces = await t.listed();
    must(traces.length > 0, `no trace of ${wanted}`);
    for (const one of traces) {
      must(
        one.services.includes(wanted),
        `trace ${one.id} has no span of ${wanted}: ${one.services}`,
      );
    }
    t.best = traces.sort((a, b) => b.services.length - a.services.length || a.spans - b.spans)[0];
  });

  await t.check("the order is the server's, over all that fits", async () => {
    for (const [sort, figure] of [
      ["slowest", "duration"],
      ["largest", "spans"],
      ["errors", "errors"],
    ]) {
      await t.open(`/search?sort=${sort}&limit=20`, "results");
      await t.searched();
      const shown = await t.listed();
      const all = await t.api(`search?start=-1h&limit=500&sort=newest`);
      const most = Math.max(
        ...all.traces.map((one) => Number(one[{ duration: "duration_nano" }[figure] ?? figure])),
      );
      must(shown[0][figure] >= most, `${sort}: first has ${shown[0][figure]}, one has ${most}`);
      const figures = shown.map((one) => one[figure]);
      const sorted = [...figures].sort((a, b) => b - a);
      must(figures.join() === sorted.join(), `${sort} is out of order: ${figures}`);
      const covered = await page.innerText("[data-testid=covered]");
      must(/(Slowest|Largest|Most errors) of .*\d\d:\d\d:\d\d – /.test(covered), covered);
    }
  });

  await t.check("a list that covers less says so", async () => {
    await t.alter("**/api/v1/search*", (json) => {
      json.covered.complete = false;
      json.warnings = ["Looked at the newest part only: narrow the search."];
    });
    await t.open("/search?sort=slowest", "results");
    const covered = await page.innerText("[data-testid=covered]");
    must(/looked at .* only/.test(covered), covered);
    must((await page.locator("[data-testid=search-warning]").count()) === 1, "no warning");
  });

  await t.check("a failed trace says in the list who failed, and how", async () => {
    await t.open("/search?status=error", "results");
    await t.searched();
    const { traces } = await t.api("search?status=error&start=-1h&limit=100");
    const told = traces.find((one) => one.error?.text);
    must(told, "no failed trace tells its error");
    const why = await page.innerText(`[data-trace-id="${told.trace_id}"] [data-testid=why]`);
    // The list omits the word HTTP. The code is checked below.
    const words = told.error.text.replace(/^HTTP (?=\d+$)/, "");
    must(why.includes(told.error.service) && why.includes(words), why);
    if (told.error.status_code !== null) must(why.includes(String(told.error.status_code)), why);
    // Only doubtful links are marked, not every uncertain one.
    const alarms = await page.$$eval(".result:has(.badge.warn)", (rows) =>
      rows.map((row) => row.dataset.traceId),
    );
    const doubtful = new Set(traces.filter((one) => one.doubtful).map((one) => one.trace_id));
    must(
      alarms.every((id) => doubtful.has(id)),
      `${alarms.length} alarms, ${doubtful.size} doubtful`,
    );
  });

  await t.check("Enter and Space press what has the focus", async () => {
    await t.open("/search", "results");
    await page.focus("[data-testid=sort-slowest]");
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.searchParams.get("sort") === "slowest");
    await page.focus("[data-testid=live]");
    await page.keyboard.press(" ");
    await page.waitForURL((url) => url.searchParams.get("live") === "1");
    await page.focus('nav a[href="/map"]');
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname === "/map");
    await t.open("/search", "result");
    const second = page.locator("[data-testid=result]").nth(1);
    const id = await second.getAttribute("data-trace-id");
    await second.focus();
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname === `/trace/${id}`);
  });

  await t.check("a live list keeps what is chosen, wherever it moves", async () => {
    let held = 3;
    await t.alter("**/api/v1/search*", (json) => {
      json.traces = json.traces.slice(held);
    });
    await t.open("/search?live=1", "result");
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    const chosen = () => page.getAttribute(".result.chosen", "data-trace-id");
    const before = await chosen();
    held = 0;
    await page.waitForFunction(
      (id) =>
        [...document.querySelectorAll(".result")].findIndex((row) => row.dataset.traceId === id) >=
        4,
      before,
    );
    must((await chosen()) === before, "another trace is chosen");
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname === `/trace/${before}`);
  });

  await t.check("Back finds the list as it was left", async () => {
    await t.open("/search?limit=200", "result");
    await page.click("[data-testid=status-ok]");
    await page.waitForURL((url) => url.searchParams.get("status") === "ok");
    await t.searched();
    await page.waitForTimeout(100);
    await page.evaluate(() => (document.querySelector(".results").scrollTop = 700));
    await page.waitForTimeout(100);
    const at = await page.evaluate(() => document.querySelector(".results").scrollTop);
    must(at > 300, "the list is too short for this");
    const rows = await page.$$eval(".result", (all) =>
      all.map((row) => [row.dataset.traceId, row.getBoundingClientRect().top]),
    );
    const [id] = rows.find(([, top]) => top > 500);
    await page.click(`.result[data-trace-id="${id}"]`);
    await page.waitForSelector("[data-testid=trace]");
    await page.goBack();
    await page.waitForSelector(`.result.chosen[data-trace-id="${id}"]`);
    const back = await page.evaluate(() => document.querySelector(".results").scrollTop);
    must(Math.abs(back - at) < 2, `scrolled to ${back}, was left at ${at}`);
    must(t.param("status") === "ok" && t.param("limit") === "200", page.url());
    must(
      (await page.getAttribute("[data-testid=status-ok]", "aria-pressed")) === "true",
      "the filter is not shown",
    );
    await page.goForward();
    await page.waitForSelector("[data-testid=trace]");
  });

  await t.check("a set filter does not look like a placeholder", async () => {
    const look = () =>
      page.$eval("[data-testid=service]", (field) => {
        const style = getComputedStyle(field);
        return `${style.backgroundColor} ${style.borderColor} ${style.fontWeight}`;
      });
    await t.open("/search", "results");
    const unset = await look();
    await t.open(`/search?service=${encodeURIComponent(t.best.services[0])}`, "results");
    must((await look()) !== unset, `both look like ${unset}`);
    await page.focus("[data-testid=service]");
    const kept = await page.inputValue("[data-testid=service]");
    must(kept === t.best.services[0], `with the focus it shows "${kept}"`);
  });

  await t.check(
    "the attribute field completes, adds, removes, and says what it does not know",
    async () => {
      await t.open("/search", "results");
      const field = page.locator("[data-testid=attribute]");
      await field.click();
      await page.keyboard.type("http.response.st");
      await page.waitForSelector('[role=option][data-value="http.response.status_code"]');
      await page.keyboard.press("Enter");
      must((await field.inputValue()) === "http.response.status_code=", "the key is not completed");
      await page.waitForSelector('[role=option][data-value="200"]');
      await field.fill("http.response.status_code >= 400");
      await page.keyboard.press("Enter");
      await page.waitForURL((url) => url.searchParams.has("attribute"));
      must(t.param("attribute") === "http.response.status_code>=400", page.url());
      await t.searched();
      const shown = await t.listed();
      const { traces } = await t.api(
        `search?start=-1h&limit=100&attribute=${encodeURIComponent("http.response.status_code>=400")}`,
      );
      must(shown.length > 0, "nothing found");
      const wanted = new Set(traces.map((one) => one.trace_id));
      must(
        shown.filter((one) => wanted.has(one.id)).length >= shown.length - 3,
        "the list is not what the API finds",
      );
      await field.fill("url.path~cart");
      await page.keyboard.press("Enter");
      await page.waitForFunction(
        () => document.querySelectorAll("[data-testid=condition]").length === 2,
      );
      await page.locator("[data-testid=condition] button").first().click();
      await page.waitForURL((url) => url.searchParams.get("attribute") === "url.path~cart");
      await field.fill("http.response.status_code > many");
      await page.keyboard.press("Enter");
      const said = await page.innerText("[data-testid=condition-problem]");
      must(said.includes("Not understood") && said.includes("many"), said);
      await t.shot("conditions");
    },
  );

  await t.check("columns are chosen, and a link keeps them, also to older traces", async () => {
    const heads = (on) =>
      on.$$eval("[data-testid=results-head] [data-column]", (all) =>
        all.map((one) => one.dataset.column),
      );
    await t.open("/search?limit=20", "result");
    const usual = await heads(page);
    must(usual.includes("services") && !usual.includes("id"), `by itself it shows ${usual}`);
    const wide = () =>
      page.$eval(".result .what", (one) => Math.round(one.getBoundingClientRect().width));
    const before = await wide();
    await page.focus("[data-testid=columns]");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-testid=column-id]");
    await page.click("[data-testid=column-services]");
    await page.click("[data-testid=column-id]");
    await page.waitForURL((url) => url.searchParams.get("columns")?.endsWith(",id"));
    await t.shot("search-columns");
    await page.keyboard.press("Escape");
    await page.waitForSelector("[data-testid=column-id]", { state: "hidden" });
    const chosen = await heads(page);
    const wanted = [...usual.filter((one) => one !== "services"), "id"];
    must(chosen.join() === wanted.join(), `it shows ${chosen}, not ${wanted}`);
    must((await page.locator(".result .chips").count()) === 0, "the services are still there");
    const [{ id }] = await t.listed();
    must((await page.innerText(".result .id")) === id, "the id is not that of the trace");
    must((await wide()) !== before, "the hidden column still takes its room");
    // Every cell stands below its head.
    const edges = await page.evaluate(() =>
      [...document.querySelectorAll("[data-testid=results-head] [data-column]")].map((head) => {
        const cell = document.querySelector(
          `.result .${head.dataset.column === "duration" ? "time" : head.dataset.column}`,
        );
        return [head.getBoundingClientRect(), cell.getBoundingClientRect()].map((box) => [
          box.left,
          box.right,
        ]);
      }),
    );
    for (const [at, [head, cell]] of edges.entries()) {
      must(
        head[1] > cell[0] && head[0] < cell[1] + 1,
        `${chosen[at]}: head ${head}, cell ${cell} of another column`,
      );
    }
    await page.click("[data-testid=older]");
    await page.waitForURL((url) => url.searchParams.has("end"));
    await t.searched();
    must((await heads(page)).join() === wanted.join(), "older traces have other columns");
    const listed = (await t.listed()).map((one) => one.id);
    // As somebody else opens the link.
    const other = await page.context().newPage();
    try {
      await other.goto(page.url());
      await other.waitForSelector("main.search[data-loading=false] [data-testid=result]");
      must((await heads(other)).join() === wanted.join(), "the link shows other columns");
      const theirs = await other.$$eval("[data-testid=result]", (rows) =>
        rows.map((row) => row.dataset.traceId),
      );
      const kept = theirs.filter((one) => listed.includes(one));
      must(kept[0] === listed[0], `the link begins with ${theirs[0]}, not ${listed[0]}`);
    } finally {
      await other.close();
    }
  });

  await t.check("times are told in one zone, and UTC is remembered", async () => {
    await t.open("/search", "result");
    const started = () => page.locator(".result .started").first().getAttribute("title");
    const local = await started();
    must(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC\+05:30$/.test(local), local);
    const id = await page.locator(".result").first().getAttribute("data-trace-id");
    await page.click("[data-testid=zone]");
    await page.reload();
    await t.open(`/trace/${id}`, "trace");
    const utc = await page.innerText("[data-testid=trace-start]");
    must(utc.endsWith(" UTC"), utc);
    const moment = (text) =>
      Date.parse(text.replace(" UTC", "Z").replace(" ", "T").replace("Z+", "+"));
    must(moment(local) === moment(utc), `${local} is not ${utc}`);
    await page.click("[data-testid=zone]");
    const again = await page.innerText("[data-testid=trace-start]");
    must(again === local, `${again} is not ${local}`);
  });
}
