// Perses' client of Tempo: what it finds in a server at this address, as JSON.
// perses.mjs URL TRACE

import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { query, search, searchTagValues, searchTags, searchWithFallback } = require(
  "@perses-dev/tempo-plugin/lib/cjs/model/tempo-client.js",
);

const [datasourceUrl, traceId] = process.argv.slice(2);
const options = { datasourceUrl };
const now = Math.ceil(Date.now() / 1000);
const range = { start: now - 3600, end: now + 60 };

console.log(
  JSON.stringify({
    search: await search({ q: "{ status = error }", limit: 5, ...range }, options),
    summaries: await searchWithFallback({ q: '{ resource.service.name = "cart" }', ...range }, options),
    trace: await query({ traceId }, options),
    tags: await searchTags({ ...range }, options),
    values: await searchTagValues({ tag: "resource.service.name", q: "{}", ...range }, options),
  }),
);
