/**
 * Uses the UI like a person, in headless Chromium. Needs a running server that has traces of a
 * shop, and one trace of more than 20,000 spans:
 *
 *   node test/browser.mjs BASE_URL OUT_DIRECTORY
 *
 * Environment: MIN_SERVICES (5): services that some trace has to cross; SERVICE: the service to
 * filter by (default: the busiest service that is not the first of a trace); CHROMIUM; ONLY: the
 * parts to run, such as `trace,map` (search always runs). Saves screenshots, prints `N passed, N
 * failed`, and exits with 1 if a check failed.
 */
import { analysisChecks } from "./browser/analysis.mjs";
import { chainsChecks } from "./browser/chains.mjs";
import { looksChecks } from "./browser/looks.mjs";
import { mapChecks } from "./browser/map.mjs";
import { keyboardChecks } from "./browser/keyboard.mjs";
import { must, start } from "./browser/harness.mjs";
import { overviewChecks } from "./browser/overview.mjs";
import { searchChecks } from "./browser/search.mjs";
import { statusChecks } from "./browser/status.mjs";
import { queryChecks } from "./browser/query.mjs";
import { traceChecks } from "./browser/trace.mjs";
import { viewsChecks } from "./browser/views.mjs";

const base = process.argv[2] ?? process.env.BASE_URL ?? "http://127.0.0.1:7070";
const out = process.argv[3] ?? process.env.OUT ?? "test-results";
const only = process.env.ONLY?.split(",");

const t = await start(base.replace(/\/$/, ""), out);
await searchChecks(t);
for (const [name, checks] of [
  ["overview", overviewChecks],
  ["query", queryChecks],
  ["trace", traceChecks],
  ["views", viewsChecks],
  ["map", mapChecks],
  ["chains", chainsChecks],
  ["analysis", analysisChecks],
  ["status", statusChecks],
  ["keyboard", keyboardChecks],
  ["looks", looksChecks],
]) {
  if (!only || only.includes(name)) await checks(t);
}
await t.check("nothing broke silently", async () => {
  must(t.complaints.length === 0, t.complaints.slice(0, 5).join("\n"));
});
await t.end();
