// Holds what we accept and refuse against a grammar that is not ours: that of Grafana's
// query editor. Reads corpus.txt, whose first column says who accepts each query:
//
//   =  both            !  neither
//   +  only we         -  only the editor's grammar
//
// The crate's own tests hold us to the same file. With --mark, reads queries from
// standard input instead and says `ok` or `no` for each.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parser } from "@grafana/lezer-traceql";

// The grammar goes on after an error, and marks where it was.
function accepts(query) {
  let errors = 0;
  parser.parse(query).iterate({
    enter(node) {
      if (node.type.isError) errors += 1;
    },
  });
  return errors === 0;
}

if (process.argv.includes("--mark")) {
  for (const query of readFileSync(0, "utf8").split("\n").slice(0, -1)) {
    console.log(accepts(query) ? "ok" : "no");
  }
} else {
  const corpus = fileURLToPath(new URL("corpus.txt", import.meta.url));
  let counted = 0;
  let wrong = 0;
  for (const [index, line] of readFileSync(corpus, "utf8").split("\n").entries()) {
    if (line === "" || line.startsWith("#")) continue;
    const expected = line[0] === "=" || line[0] === "-";
    const query = line.slice(2);
    counted += 1;
    if (accepts(query) !== expected) {
      wrong += 1;
      console.error(`corpus.txt:${index + 1}: the grammar ${expected ? "refuses" : "accepts"}: ${query}`);
    }
  }
  console.log(`${counted} queries, ${wrong} marked wrongly`);
  process.exit(wrong === 0 ? 0 : 1);
}
