/**
 * Goes from the overview to the cause of a fault, as docs/walkthroughs tells it, and makes its
 * pictures. tests/e2e/walkthroughs.py breaks the shop and runs it:
 *
 *   node test/walkthroughs.mjs BASE_URL OUT_DIRECTORY NAME SERVICE FAULT_START_SECONDS
 *
 * Exits with 1 if the cause is not what was broken, or takes more than six clicks.
 */
import { join } from "node:path";
import { must, start } from "./browser/harness.mjs";

const MOST_CLICKS = 6;
const [base, out, name, service, began] = process.argv.slice(2);

const t = await start(base.replace(/\/$/, ""), out);
const { page } = t;
page.setDefaultTimeout(30_000);
await page.setViewportSize({ width: 1240, height: 760 });
let clicks = 0;
let pictures = 0;

async function click(target) {
  clicks++;
  console.log(`      ${clicks}. ${target}`);
  await page.locator(target).first().click();
}

async function picture() {
  pictures++;
  await page.mouse.move(5, 5);
  await page.waitForTimeout(600);
  await page.screenshot({ path: join(out, `${name}-${pictures}.png`) });
}

/** From the overview to the page of bottlenecks, by the menu. */
async function bottlenecks() {
  await page.goto(`${t.base}/`);
  await page.waitForSelector("[data-testid=services]");
  await click("[data-testid=analysis-menu]");
  await click("[data-testid=analysis-pages] a[href='/bottlenecks']");
  await page.waitForSelector("[data-testid=shares] tr[data-share]", { timeout: 60_000 });
}

/** From the overview to the page of a service that is slow or fails. */
async function servicePage(name = service) {
  await page.goto(`${t.base}/`);
  await page.waitForSelector("[data-testid=services]");
  await picture();
  await click(`[data-testid=services] tr[data-service="${name}"] a`);
  await page.waitForURL((url) => url.pathname === `/service/${name}`);
}

const WALKS = {
  "slow-query": async () => {
    await servicePage();
    const call = page.locator("[data-testid=statements] tr[data-call]").first();
    await call.waitFor();
    await call.scrollIntoViewIfNeeded();
    await picture();
    await click("[data-testid=statements] tr[data-call] td a");
    await page.waitForSelector("[data-testid=details]");
    await picture();
    const { pathname, searchParams } = new URL(page.url());
    const trace = await t.api(`traces/${pathname.split("/").at(-1)}?limit=1000`);
    const span = trace.spans.find((one) => one.span_id === searchParams.get("span"));
    must(span.service === service && span.protocol === "postgresql", "it is no statement of its");
    must(Number(span.duration_nano) > 100e6, `it took ${span.duration_nano} ns`);
  },
  "failing-dependency": async () => {
    await servicePage();
    await page.locator("[data-testid=errors] li a").first().waitFor();
    await page.locator("[data-testid=errors]").scrollIntoViewIfNeeded();
    await picture();
    await click("[data-testid=errors] li a");
    await click("[data-testid=result]");
    await page.waitForSelector("[data-testid=tree]");
    await page.keyboard.press("e");
    await page.waitForSelector("[data-testid=details]");
    await picture();
    const id = new URL(page.url()).pathname.split("/").at(-1);
    const trace = await t.api(`traces/${id}?limit=1000`);
    const failed = trace.spans.filter(
      (one) => one.protocol === "postgresql" && one.status === "error",
    );
    must(failed.length > 0, "PostgreSQL did not fail in it");
  },
  "lock-contention": async () => {
    await servicePage();
    await page.waitForSelector("[data-testid=operations] tr[data-operation]");
    await page.waitForSelector("[data-testid=statements]");
    await picture();
    await click("[data-testid=operations] tr[data-operation] a");
    await t.searched();
    await click("[data-testid=sort-slowest]");
    await page.waitForURL((url) => url.searchParams.get("sort") === "slowest");
    await t.searched();
    await click("[data-testid=result]");
    await page.waitForSelector("[data-testid=tree]");
    await click("[data-testid=view-path]");
    await page.waitForSelector("[data-testid=path-table]");
    await picture();
    const first = await page.textContent("[data-testid=path-table] tbody tr th");
    must(first.includes(service), `most of the time is in ${first}`);
  },
  "packet-loss": async () => {
    // The called service itself is not slow: what it is sent arrives late.
    await servicePage("storefront");
    const card = page.locator("[data-testid=network]");
    await card.locator("tr[data-other]").first().waitFor();
    await card.scrollIntoViewIfNeeded();
    await picture();
    const worst = await card.locator("tr[data-other]").first().getAttribute("data-other");
    must(worst === service, `most is lost between storefront and ${worst}`);
    await click("[data-testid=network] tr[data-other] .resent-calls a");
    await page.waitForSelector("[data-testid=details]");
    const { searchParams } = new URL(page.url());
    await click("[data-testid=view-hops]");
    await page.waitForSelector("[data-testid=hops]");
    await picture();
    const trace = await t.api(`traces/${searchParams.get("span")}?limit=1000`);
    const call = trace.spans.find((one) => one.span_id === searchParams.get("span"));
    const called = trace.spans.find((one) => one.parent === call.span_id);
    must(call.service === "storefront" && called.service === service, "it is another call");
    must(call.retransmits + called.retransmits > 0, "nothing was sent again");
    must(Number(call.duration_nano) > 150e6, `it took ${call.duration_nano} ns`);
    must(Number(called.duration_nano) < call.duration_nano / 2, `${service} itself was slow`);
    must(
      (await page.innerText("[data-testid=hops]")).includes("data was sent again"),
      "the hops do not say what happened",
    );
  },
  "retry-storm": async () => {
    await bottlenecks();
    const row = page.locator(`[data-testid=retried] tbody tr:has-text("${service}")`).first();
    await row.scrollIntoViewIfNeeded();
    await picture();
    await click(`[data-testid=retried] tbody tr:has-text("${service}") a:has-text("worst")`);
    await page.waitForSelector("[data-testid=tree]");
    await page.keyboard.press("e");
    await picture();
  },
  "n-plus-one": async () => {
    await bottlenecks();
    const row = page.locator(`[data-testid=repeated] tbody tr:has-text("${service}")`).first();
    await row.scrollIntoViewIfNeeded();
    await picture();
    await click(`[data-testid=repeated] tbody tr:has-text("${service}") a:has-text("worst")`);
    await page.waitForSelector("[data-testid=tree]");
    await click("[data-testid=fold]");
    await page.waitForSelector(".repeated");
    await picture();
  },
};

await t.check(`${name} of ${service}, since ${new Date(began * 1000).toISOString()}`, async () => {
  await WALKS[name]();
  must(clicks <= MOST_CLICKS, `${clicks} clicks`);
});
await t.end();
