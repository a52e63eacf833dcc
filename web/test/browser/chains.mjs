/** The pages of chains: the list and one chain. */
import { must } from "./harness.mjs";

export async function chainsChecks(t) {
  const { page } = t;
  await t.check("chains are listed with links to their traces", async () => {
    await t.open("/chains", "chains");
    const shown = await page.$$eval("[data-testid=chains] tr[data-chain]", (rows) =>
      rows.map((row) => [row.dataset.chain, Number(row.dataset.runs)]),
    );
    must(shown.length > 0, "no chain");
    const { chains } = await t.api("chains?start=-1h");
    const known = new Map(chains.map((chain) => [chain.id, chain.runs]));
    must(known.has(shown[0][0]), `${shown[0][0]} is not in the answer`);
    const most = Math.max(...known.values());
    must(shown[0][1] <= most && shown[0][1] >= most * 0.9, `${shown[0][1]} runs, not ${most}`);
    const trace = await page.getAttribute("[data-testid=chains] .examples a", "href");
    must(/^\/trace\/[0-9a-f]{32}$/.test(trace), trace);
    await t.shot("chains");
  });

  await t.check("a chain shows its calls by level, and shares that add up", async () => {
    await t.open("/chains", "chains");
    await page.click("[data-testid=chains] tr[data-chain] th a");
    await page.waitForSelector("[data-testid=chain-calls] tr[data-level]");
    const id = new URL(page.url()).pathname.split("/")[2];
    const { calls } = await t.api(`chains/${id}?start=-1h`);
    const shares = calls.reduce((sum, call) => sum + call.lr, 0);
    must(Math.abs(shares - 1) < 0.001, `LR adds up to ${shares}`);
    const levels = await page.$$eval("[data-testid=chain-calls] tr[data-level]", (rows) =>
      rows.map((row) => Number(row.dataset.level)),
    );
    must(levels[0] === 0 && levels.length === calls.length, `${levels}`);
    must(
      levels.every((level, at) => at === 0 || (level > 0 && level <= levels[at - 1] + 1)),
      `${levels}`,
    );
    await t.shot("chain");
  });
}
