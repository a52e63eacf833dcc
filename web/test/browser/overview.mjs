/** The overview and the page of a service. */
import { must } from "./harness.mjs";

export async function overviewChecks(t) {
  const { page } = t;
  await t.check("the first page shows the services, as many as the graph has", async () => {
    await t.open("/", "services");
    const shown = await page.$$eval("[data-testid=services] tr[data-service]", (rows) =>
      rows.map((row) => [row.dataset.service, Number(row.dataset.requests)]),
    );
    must(shown.length >= t.minServices, `${shown.length} services: ${shown.join("; ")}`);
    const { nodes } = await t.api("graph?start=-1h");
    const known = new Map(nodes.map((node) => [node.name, node.requests]));
    for (const [name, requests] of shown) {
      must(known.has(name), `${name} is not in the graph`);
      must(requests <= known.get(name) + 1, `${name}: ${requests}, graph ${known.get(name)}`);
    }
    const drawn = await page.$$eval(
      "[data-testid=services] .spark .line",
      (all) => all.filter((one) => one.getAttribute("d") !== "").length,
    );
    must(drawn > 0, "no chart has a line");
    await page.waitForSelector("[data-testid=changes] li:not(:has-text('Comparing'))");
    await t.shot("overview");
  });

  await t.check("what is folded away is counted, and a click shows it", async () => {
    await t.open("/", "services");
    const unfold = page.locator("[data-testid=unfold]");
    if ((await unfold.count()) === 0) return;
    const said = Number(/\d+/.exec(await unfold.innerText())[0]);
    const rows = () => page.locator("[data-testid=services] tr[data-service]").count();
    const before = await rows();
    await unfold.click();
    await page.waitForURL((url) => url.searchParams.get("all") === "1");
    must((await rows()) === before + said, `${await rows()} rows, not ${before} + ${said}`);
  });

  await t.check(
    "the overview leads to causes, which say who, by what evidence, or nothing",
    async () => {
      await t.open("/", "services");
      await page.click("[data-testid=changes] a:has-text('Find the cause')");
      await page.waitForURL((url) => url.pathname === "/causes");
      const summary = page.locator("[data-testid=cause-summary]");
      await summary.waitFor({ timeout: 30_000 });
      const answer = await t.api("cause");
      const suspects = page.locator("[data-testid=suspect]");
      if ((await summary.getAttribute("data-stands-out")) === "true") {
        must((await suspects.count()) > 0, "it stands out, and nobody is shown");
        must(
          (await page.locator("[data-testid=suspect] [data-kind]").count()) > 0,
          "there is no evidence",
        );
        await t.shot("causes");
        await suspects.first().locator("a[href^='/trace/']").first().click();
        await page.waitForURL((url) => url.pathname.startsWith("/trace/"));
        await page.goBack();
      } else {
        must((await suspects.count()) === 0, "nothing stands out, and somebody is accused");
      }
      must(answer.summary.length > 0, "the answer has no words");
      await page.goto(`${t.base}/causes?start=-2h&end=-1h&service=nobody`);
      await summary.waitFor({ timeout: 30_000 });
      must((await suspects.count()) === 0, "somebody is accused of nothing");
      await page.click("button:has-text('Only below nobody')");
      await page.waitForURL((url) => !url.searchParams.has("service"));
    },
  );

  await t.check("a link to the search at its former address still works", async () => {
    await page.goto(`${t.base}/?status=error&start=-6h`);
    await page.waitForURL((url) => url.pathname === "/search");
    must(t.param("status") === "error" && t.param("start") === "-6h", page.url());
  });

  await t.check("a service has its operations, callers, callees, and a way back", async () => {
    await t.open("/", "services");
    const { edges } = await t.api("graph?start=-1h");
    const names = await page.$$eval("[data-testid=services] tr[data-service]", (rows) =>
      rows.map((row) => row.dataset.service),
    );
    const calls = (name, side) => edges.filter((edge) => edge[side] === name).length;
    // Of a service whose answers nobody saw, only its callers' side is known: it has no operations.
    const answers = async (name) => {
      const { operations } = await t.api(`operations?service=${encodeURIComponent(name)}`);
      return operations.some(({ kind }) => kind === "server" || kind === "consumer");
    };
    let name;
    for (const one of names) {
      if (calls(one, "client") === 0 || calls(one, "server") === 0) continue;
      if (await answers(one)) {
        name = one;
        break;
      }
    }
    must(name, "no service is called, seen to answer, and calls");
    await page.click(`tr[data-service="${name}"] a`);
    await page.waitForURL((url) => url.pathname === `/service/${encodeURIComponent(name)}`);
    await page.waitForSelector("[data-testid=callers] tr[data-other]");
    for (const [testid, side, other] of [
      ["callers", "server", "client"],
      ["callees", "client", "server"],
    ]) {
      const shown = await page.$$eval(`[data-testid=${testid}] tr[data-other]`, (rows) =>
        rows.map((row) => row.dataset.other),
      );
      const wanted = edges.filter((edge) => edge[side] === name).map((edge) => edge[other]);
      for (const one of wanted) must(shown.includes(one), `${testid}: ${one} is missing`);
    }
    await page.waitForSelector("[data-testid=operations] tr[data-operation]");
    await page.waitForSelector("[data-testid=errors]");
    // What the kernel did not see is not said to be without loss.
    await page.waitForSelector("[data-testid=network]");
    const around = await t.api(`graph?start=-1h&service=${encodeURIComponent(name)}`);
    for (const edge of around.edges) {
      must(edge.client === name || edge.server === name, `${edge.client} calls ${edge.server}`);
    }
    const seen = around.edges.filter((edge) => edge.network);
    must(seen.length > 0, "no connection of it was seen by the kernel");
    const lines = await page.$$eval("[data-testid=network] tr[data-other]", (rows) =>
      rows.map((row) => ({ ...row.dataset, text: row.innerText })),
    );
    must(lines.length === around.edges.length, `${lines.length} of ${around.edges.length} peers`);
    for (const { other, resent, text } of lines) {
      const isSaid = text.includes("not seen by the kernel");
      must((resent === undefined) === isSaid, `${other}: ${text}`);
    }
    await t.shot("service");
    // Read from whole traces, and only when somebody looks.
    await page.evaluate(() =>
      document.querySelector("[data-testid=when-seen]")?.scrollIntoView({ block: "center" }),
    );
    await page.waitForSelector("[data-testid=chains-through] tr[data-chain]");
    const { edges: strengths } = await t.api(
      `depends?start=-1h&limit=500&service=${encodeURIComponent(name)}`,
    );
    const needed = strengths
      .filter(({ caller, called }) => caller.service === name && called.service !== name)
      .map(({ called }) => called.service);
    const needs = await page.$$eval("[data-testid=needs] tr[data-verdict]", (rows) =>
      rows.map((row) => row.dataset.other),
    );
    must(needs.length > 0 || needed.length === 0, "no dependency is shown");
    for (const one of needs) must(needed.includes(one), `${one} is no dependency of ${name}`);
    await t.shot("service-depends");
    await page.goBack();
    await page.waitForSelector("[data-testid=services]");
  });
}
