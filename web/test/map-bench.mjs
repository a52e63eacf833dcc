/**
 * Measures the map by its size, in headless Chromium without a GPU:
 *
 *   node test/map-bench.mjs BASE_URL
 *
 * Any running server will do: this script generates the map's data.
 */
import { start } from "./browser/harness.mjs";
import { drag, openMap, quantile } from "./browser/map.mjs";
import { crowd } from "./fixture/crowd.mjs";

const SIZES = [
  [100, 300],
  [600, 3000],
  [2000, 10_000],
];
const FRAMES = 120;

const t = await start(process.argv[2] ?? "http://127.0.0.1:7070", "test-results");
for (const [services, calls] of SIZES) {
  const first = await openMap(t, crowd(services, calls));
  const { gaps, work } = await drag(t.page, FRAMES);
  const [name, at] = [
    `${services} services, ${calls} calls`,
    (share) => quantile(gaps, share).toFixed(0),
  ];
  console.log(
    `${name}: first picture ${first} ms; a frame every ${at(0.5)} ms, p95 ${at(0.95)} ms; drawing ${quantile(work, 0.5)} ms, p95 ${quantile(work, 0.95)} ms`,
  );
  await t.page.unrouteAll();
}
await t.end();
