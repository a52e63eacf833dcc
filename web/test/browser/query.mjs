/** The search in TraceQL, the heat map, groups, and the command palette. */
import { must } from "./harness.mjs";

const encoded = (query) => encodeURIComponent(query);

export async function queryChecks(t) {
  const { page } = t;
  await t.check("the builder writes its search in TraceQL, and both find the same", async () => {
    await t.open("/search?status=error&end=now", "scatter");
    await page.click("[data-testid=traceql]");
    await page.waitForSelector("[data-testid=query]");
    must((await page.inputValue("[data-testid=query]")) === "{ status = error }", page.url());
    await page.waitForSelector("[data-testid=result]");
    const rows = await page.$$eval("[data-testid=result]", (all) =>
      all.map((row) => Number(row.dataset.errors)),
    );
    must(
      rows.every((errors) => errors > 0),
      `a trace without an error: ${rows.join(" ")}`,
    );
    await t.shot("traceql");
    await page.click("[data-testid=builder]");
    await page.waitForSelector("[data-testid=status-error][aria-pressed=true]");
  });

  await t.check("a fault in a query is shown where it is", async () => {
    const heard = t.complaints.length;
    await page.goto(`${t.base}/search?q=${encoded("{ status == error }")}`);
    const said = await page.innerText("[data-testid=query-fault]");
    must(said.includes("Line 1, column 11"), said);
    // The browser logs every answer of 400, and this one was wanted.
    t.complaints.splice(heard);
  });

  await t.check("names and values are completed", async () => {
    await page.goto(`${t.base}/search?q=${encoded("{ }")}`);
    const field = page.locator("[data-testid=query]");
    await field.fill("");
    await field.pressSequentially("{ resource.service.na");
    await page.waitForSelector('[role=option][data-value="resource.service.name"]');
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await field.pressSequentially('= "');
    await page.waitForSelector("[role=option]");
    const name = await page.locator("[role=option]").first().getAttribute("data-value");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const typed = (await field.inputValue()).trim();
    must(typed === `{ resource.service.name = "${name}"`, typed);
    await field.pressSequentially(" }");
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => (url.searchParams.get("q") ?? "").includes(name));
    await t.searched();
    for (const one of await t.listed()) must(one.services.includes(name), `${one.id}: ${name}`);
  });

  await t.check("a box over the heat map selects its spans", async () => {
    await t.open("/search?chart=heat&start=-1h", "heat");
    await page.waitForSelector("[data-testid=heat] rect");
    const box = await page.locator(".heat-cells").boundingBox();
    await page.mouse.move(box.x + 2, box.y + 2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width - 2, box.y + box.height - 2, { steps: 4 });
    const said = await page.innerText("[data-testid=heat] figcaption");
    await page.mouse.up();
    await page.waitForURL((url) => url.searchParams.has("min"));
    must(/^[\d,]+ spans? of/.test(said), said);
    must(/^\d+$/.test(t.param("start")) && t.param("max") !== null, page.url());
    await t.shot("heat");
  });

  await t.check("spans are grouped by an attribute, and a row is a filter", async () => {
    const group = "resource.service.name";
    await page.goto(`${t.base}/search?q=${encoded("{ }")}&group=${group}`);
    await page.waitForSelector("[data-testid=groups] tbody tr");
    const first = page.locator("[data-testid=groups] .link").first();
    const name = await first.innerText();
    await t.shot("groups");
    await first.click();
    await page.waitForURL(
      (url) => url.searchParams.get("q") === `{ resource.service.name = "${name}" }`,
    );
    await page.waitForSelector("[data-testid=result]");
  });

  await t.check(
    "what tells some spans from the rest is ranked, and a row is a filter",
    async () => {
      const { services } = await t.api("services");
      const { name } = services.toSorted((a, b) => b.spans - a.spans)[0];
      const query = `{ resource.service.name = "${name}" }`;
      await page.goto(`${t.base}/search?q=${encoded(query)}&start=-1h`);
      await page.click("[data-testid=differ]");
      await page.waitForSelector("[data-testid=different] tbody tr");
      const row = page.locator("[data-testid=different] tbody tr").first();
      const said = await row.locator("td.number").allInnerTexts();
      must(said.length === 2 && said[0] !== said[1], `both shares are ${said[0]}`);
      // The service itself is in all of these, and in none of the others.
      const own = `[data-testid=different] tr[data-name="resource.service.name"][data-value="${name}"]`;
      must(
        (await page.locator(`${own} td.number`).allInnerTexts()).join(" ") === "100% 0%",
        "shares",
      );
      await t.shot("different");
      const box = await page.locator(".heat-cells").boundingBox();
      await page.mouse.move(box.x + 2, box.y + 2);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width - 2, box.y + box.height / 2, { steps: 4 });
      await page.mouse.up();
      await page.waitForURL((url) => /^\d/.test(url.searchParams.get("differ") ?? ""));
      await page.waitForFunction(() =>
        document.querySelector("[data-testid=different-sum]")?.textContent.includes("in the box"),
      );
      must(t.param("q") === query, `the box changed the query: ${t.param("q")}`);
      await page.goBack();
      await page.locator("[data-testid=different] .link").first().click();
      await page.waitForURL((url) => (url.searchParams.get("q") ?? "").length > query.length);
      must(t.param("differ") === null, page.url());
      await t.searched();
    },
  );

  await t.check("the command palette opens a service by its name", async () => {
    await t.open("/status", "status");
    await page.keyboard.press("Control+k");
    await page.waitForSelector("[data-testid=commands] input");
    const name = t.best.services[0];
    await page.keyboard.type(name);
    await page.waitForSelector("#command-0");
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.pathname === `/service/${encodeURIComponent(name)}`);
    await page.waitForSelector("[data-testid=service-page]");
  });

  await t.check("the first load is at most 400 kB compressed", async () => {
    const page = await t.page.context().newPage();
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    await session.send("Network.setCacheDisabled", { cacheDisabled: true });
    const own = new Set();
    let bytes = 0;
    session.on("Network.responseReceived", ({ requestId, response }) => {
      const path = new URL(response.url).pathname;
      if (!/^\/(api|tempo)\//.test(path)) own.add(requestId);
    });
    session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
      if (own.has(requestId)) bytes += encodedDataLength;
    });
    await page.goto(`${t.base}/`);
    await page.waitForSelector("[data-testid=services]");
    await page.close();
    must(bytes > 10_000 && bytes <= 400_000, `${bytes} bytes`);
  });
}
