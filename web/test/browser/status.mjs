/** The status page: it does not look healthy if something was lost. */
import { must } from "./harness.mjs";

export async function statusChecks(t) {
  const { page } = t;
  await t.check("the status tells the agent's state", async () => {
    await t.open("/status", "status");
    const state = await page.getAttribute("[data-testid=status]", "data-agent");
    const status = await t.api("status");
    must(state === status.agent.state, `page: ${state}, API: ${status.agent.state}`);
    await t.shot("status");
  });

  await t.check("the status does not calm above a loss, and says what each means", async () => {
    const counter = {
      part: "agent",
      name: "requests_unseen",
      value: 7,
      level: "loss",
      meaning: "Requests that were not seen.",
      action: "Raise `agent.budget`.",
    };
    await t.alter("**/api/v1/status", (json) => {
      Object.assign(json, { warnings: [], attention: true, counters: [counter] });
      if (json.store) json.store.warnings = [];
    });
    await t.open("/status", "losses");
    must((await page.locator("[data-testid=calm]").count()) === 0, "it calms");
    const said = await page.innerText("[data-testid=losses]");
    for (const part of ["7", counter.meaning, "Raise agent.budget."]) {
      must(said.includes(part), `"${part}" is missing in: ${said}`);
    }
    must((await page.getAttribute("[data-testid=health]", "data-attention")) === "true", "bar");
    counter.level = "info";
    await page.unrouteAll();
    await t.alter("**/api/v1/status", (json) => {
      Object.assign(json, { warnings: [], attention: false, counters: [counter] });
      if (json.store) json.store.warnings = [];
      if (json.ingest) json.ingest.agents = [];
    });
    await t.open("/status", "calm");
  });
}
