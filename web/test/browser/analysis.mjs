/** The menu of analyses and its pages: dependencies, entrances, sources, bottlenecks, capacity. */
import { must } from "./harness.mjs";

const close = (a, b) => Math.abs(a - b) <= 0.1 * Math.max(Math.abs(a), Math.abs(b), 1e-9);

/** Sends a failed span to a receiver of OTLP over HTTP. */
async function send(receiver, name) {
  const digits = (count) =>
    Array.from({ length: count }, () => Math.floor(Math.random() * 16).toString(16)).join("");
  const end = BigInt(Date.now()) * 1_000_000n;
  const span = {
    traceId: digits(32),
    spanId: digits(16),
    name,
    kind: 2,
    startTimeUnixNano: String(end - 5_000_000n),
    endTimeUnixNano: String(end),
    status: { code: 2, message: "sent by a test" },
  };
  const attributes = [{ key: "service.name", value: { stringValue: "live-check" } }];
  const body = { resourceSpans: [{ resource: { attributes }, scopeSpans: [{ spans: [span] }] }] };
  const response = await fetch(`${receiver}/v1/traces`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  must(response.ok, `the span was refused: HTTP ${response.status}`);
}

export async function analysisChecks(t) {
  const { page } = t;
  const rows = (testid, ...names) =>
    page.$$eval(
      `[data-testid=${testid}] tbody tr`,
      (all, wanted) =>
        all.map((row) => Object.fromEntries(wanted.map((name) => [name, row.dataset[name]]))),
      names,
    );

  await t.check("one menu leads to every analysis, by keys too", async () => {
    await t.open("/", "services");
    await page.focus("[data-testid=analysis-menu]");
    await page.keyboard.press("ArrowDown");
    await page.waitForSelector("[data-testid=analysis-pages] a:focus");
    const targets = await page.$$eval("[data-testid=analysis-pages] a", (all) =>
      all.map((one) => one.getAttribute("href")),
    );
    for (const path of ["/causes", "/bottlenecks", "/chains", "/dependencies", "/entrances"]) {
      must(targets.includes(path), `${path} is not in the menu: ${targets}`);
    }
    await t.shot("menu");
    await page.keyboard.press("Escape");
    must((await page.$("[data-testid=analysis-pages]")) === null, "Escape does not close it");
    for (const path of targets) {
      await page.goto(t.base);
      await page.click("[data-testid=analysis-menu]");
      await page.click(`[data-testid=analysis-pages] a[href="${path}"]`);
      await page.waitForURL((url) => url.pathname === path);
      await page.waitForSelector("main h1");
      must((await page.$("[data-testid=analysis-pages]")) === null, `${path}: still open`);
    }
  });

  await t.check(
    "dependencies show verdicts, and are filtered and sorted in the address",
    async () => {
      await t.open("/dependencies", "dependencies");
      const shown = await rows("dependencies", "verdict", "failures");
      const { edges } = await t.api("depends?start=-1h&limit=500");
      must(close(shown.length, edges.length), `${shown.length} rows, ${edges.length} edges`);
      must(
        shown.every(({ verdict, failures }) => verdict === "unknown" || Number(failures) >= 5),
        "a verdict of fewer than five failures",
      );
      await t.shot("dependencies");
      await page.click("[data-testid=verdict-unknown]");
      await page.waitForURL((url) => url.searchParams.get("verdict") === "unknown");
      for (const { verdict } of await rows("dependencies", "verdict")) {
        must(verdict === "unknown", verdict);
      }
      await page.click("[data-testid=verdict-all]");
      await page.click("[data-testid=dependencies] thead button:has-text('Failures')");
      await page.waitForURL((url) => url.searchParams.get("sort-by") === "failures");
      const failures = (await rows("dependencies", "failures")).map((row) => Number(row.failures));
      must(
        failures.every((one, at) => at === 0 || one <= failures[at - 1]),
        `not sorted: ${failures}`,
      );
      await t.open("/dependencies?service=nobody-is-called-so", "dependencies-page");
      await page.waitForSelector("text=No call was seen in this time");
    },
  );

  await t.check("entrances have their rates, and lead to where their time goes", async () => {
    await t.open("/entrances", "entrances");
    const shown = await rows("entrances", "service", "operation", "runs", "trend");
    const { entrances, observed_before } = await t.api("entrances?start=-1h");
    const first = entrances[0];
    must(
      shown[0].service === first.service && close(Number(shown[0].runs), first.runs),
      `${JSON.stringify(shown[0])}, not ${JSON.stringify(first)}`,
    );
    // Nothing is new if nothing is known of the time before.
    must(
      observed_before.runs > 0 || shown.every(({ trend }) => trend === "unknown"),
      JSON.stringify(shown),
    );
    await t.shot("entrances");
    await page.click("[data-testid=entrances] a:has-text('where it goes')");
    await page.waitForURL((url) => url.pathname === "/bottlenecks");
    must(t.param("operation") === first.operation, page.url());
    await page.waitForSelector("[data-testid=shares] tr[data-share]");
  });

  await t.check("sources of a service are what the API says, and lead on", async () => {
    await t.open("/sources", "sources-choose");
    // One that is called in whole traces.
    let name;
    for (const one of (await t.api("services")).services) {
      const found = await t.api(`sources?service=${encodeURIComponent(one.name)}&start=-1h`);
      if (found.callers.length > 0) name ??= one.name;
    }
    must(name, "no service is called in a whole trace");
    await page.fill("[data-testid=sources-service]", name);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.searchParams.get("service") === name);
    await page.waitForSelector("[data-testid=sources-callers] tr[data-service]");
    const answer = await t.api(`sources?service=${encodeURIComponent(name)}&start=-1h`);
    const shown = await rows("sources-callers", "service", "distance");
    for (const { service } of answer.callers) {
      must(
        shown.some((row) => row.service === service),
        `${service} is missing`,
      );
    }
    await t.shot("sources");
    await page.selectOption("[data-testid=sources-depth]", "1");
    await page.waitForURL((url) => url.searchParams.get("depth") === "1");
    await page.waitForFunction(
      () =>
        ![...document.querySelectorAll("[data-testid=sources-callers] tr[data-distance]")].some(
          (row) => row.dataset.distance !== "1",
        ),
    );
    await page.click("[data-testid=sources-chains] tr[data-chain] a");
    await page.waitForSelector("[data-testid=chain-calls]");
    await t.open("/sources?service=nobody-is-called-so", "blank");
  });

  await t.check(
    "bottlenecks of one entrance: shares of its runs, that add up to at most 1",
    async () => {
      await t.open("/bottlenecks", "shares");
      await page.waitForSelector("[data-testid=shares] tr[data-share]");
      const entrances = await page.$$eval("[data-testid=entrance] option", (all) =>
        all.map((one) => one.value).filter((value) => value !== ""),
      );
      must(entrances.length > 0, "no entrance to choose");
      await t.shot("bottlenecks");
      for (const one of entrances.slice(0, 3)) {
        await page.selectOption("[data-testid=entrance]", one);
        await page.waitForURL((url) => url.searchParams.get("operation") === one.split("\n")[1]);
        await page.waitForSelector("[data-testid=shares] tr[data-share]");
        const shares = (await rows("shares", "share")).map(({ share }) => Number(share));
        const sum = shares.reduce((all, share) => all + share, 0);
        must(sum > 0 && sum < 1.001, `${one}: ${sum}`);
      }
      for (const list of ["repeated", "retried", "fan-outs", "sequential"]) {
        must(await page.$(`[data-testid=${list}]`), `${list} is missing`);
      }
    },
  );

  await t.check("watched rules are listed with their state and what breaks them", async () => {
    await t.open("/watch", "watch-page");
    const answer = await (await page.request.get(`${t.base}/api/v1/watch`)).json();
    must(answer.rules.length > 0, "the shop's configuration has rules");
    await page.waitForSelector("[data-testid=watch] tbody tr");
    const shown = await rows("watch", "rule", "state", "alerts");
    must(
      answer.rules.every((rule) => shown.some((row) => row.rule === rule.rule)),
      `rules are missing: ${JSON.stringify(shown)}`,
    );
    const broken = shown.filter((row) => row.state === "broken");
    must(
      broken.every((row) => Number(row.alerts) > 0),
      "a broken rule has no evidence",
    );
    await t.shot("watch");
  });

  await t.check("capacity says what a forecast is made from", async () => {
    await t.open("/capacity", "loads");
    await page.selectOption("[data-testid=forecast]", "24h");
    await page.waitForURL((url) => url.searchParams.get("forecast") === "24h");
    await page.waitForSelector("[data-testid=basis], .notice.warn");
    const basis = await page.$$eval("[data-testid=basis], .notice.warn", (all) =>
      all.map((one) => one.textContent),
    );
    must(
      basis.some((one) => /sure|nothing is forecast/.test(one)),
      `no basis is shown: ${basis}`,
    );
  });

  await t.check(
    "a slider of capacity changes what its services get, held against peaks",
    async () => {
      await t.open("/capacity", "loads");
      const loads = async () =>
        (await rows("loads", "service", "now", "then", "room")).map((row) => [
          row.service,
          Number(row.then) / Number(row.now),
          row.room,
        ]);
      for (const [service, ratio, room] of await loads()) {
        must(Math.abs(ratio - 1) < 0.001, `${service}: ${ratio} without a change`);
        must(room !== "beyond", `${service} is beyond its own peak now`);
      }
      // A key on the slider of all others.
      await page.focus("[data-testid=what-if] [data-entrance='*'] input[type=range]");
      for (let at = 0; at < 3; at++) await page.keyboard.press("ArrowRight");
      await page.waitForURL((url) => url.searchParams.get("scale") === "*=2x");
      await page.waitForFunction(() =>
        [...document.querySelectorAll("[data-testid=loads] tr[data-now]")].every(
          (row) => Math.abs(row.dataset.then / row.dataset.now - 2) < 0.001,
        ),
      );
      await t.shot("capacity");
      // A typed factor of the first entrance, beyond all peaks.
      const first = await page.getAttribute(
        "[data-testid=what-if] .slider:nth-child(2)",
        "data-entrance",
      );
      await page.fill("[data-testid=what-if] .slider:nth-child(2) input.factor", "300x");
      await page.keyboard.press("Enter");
      await page.waitForURL((url) => url.searchParams.getAll("scale").includes(`${first}=300x`));
      await page.waitForSelector("[data-testid=loads] tr[data-room=beyond]");
      await page.fill("[data-testid=what-if] .slider:nth-child(2) input.factor", "much");
      must(
        (await page.getAttribute(
          "[data-testid=what-if] .slider:nth-child(2) input.factor",
          "aria-invalid",
        )) === "true",
        "a text that is no factor is taken",
      );
      await page.click("[data-testid=reset]");
      await page.waitForURL((url) => !url.searchParams.has("scale"));
      // An entrance that is none is an error that says so.
      await page.goto(`${t.base}/capacity?scale=nobody=3x`);
      await page.waitForSelector("[data-testid=failure], [data-testid=loads]");
      // The browser logs that refusal, which was meant.
      const meant = t.complaints.findLastIndex((one) => one.includes("status of 400"));
      if (meant >= 0) t.complaints.splice(meant, 1);
    },
  );

  await t.check("live: spans come, are filtered, and pause", async () => {
    await t.open("/live", "live-page");
    await page.fill("[data-testid=query]", "{ status = error }");
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.searchParams.get("q") === "{ status = error }");
    await page.waitForSelector("[data-testid=live-spans], [data-testid=blank]");
    const failed = await page.$$eval("[data-testid=live-spans] tr[data-span]", (all) =>
      all.map((row) => row.dataset.failed),
    );
    must(
      failed.every((one) => one === "true"),
      `${failed}`,
    );
    // A span that is sent meanwhile comes without a reload.
    if (process.env.OTLP) {
      const operation = `live ${Date.now()}`;
      await send(process.env.OTLP, operation);
      await page.waitForSelector(`[data-testid=live-spans] a:has-text("${operation}")`);
      await t.shot("live");
    }
    await page.keyboard.press("Escape");
    await page.click("[data-testid=pause]");
    await page.waitForSelector("[data-testid=live-page][data-paused=true]");
    const asked = [];
    page.on("request", (request) => request.url().includes("/tempo/api/search") && asked.push(1));
    await page.waitForTimeout(3000);
    must(asked.length === 0, "it asks while it is paused");
    await page.click("[data-testid=pause]");
    await page.waitForSelector("[data-testid=live-page][data-paused=false]");
    await page.waitForTimeout(500);
    must(asked.length > 0, "it does not go on");
  });
}
