import { useState } from "react";
import { get } from "../../api/client";
import type { SearchAnswer } from "../../api/types";
import { setParams } from "../../app/router";
import { plural } from "../../model/number";
import type { Tree } from "../../model/tree";
import { usual } from "../../model/usual";

const MOST_TRACES = 200;
const HOUR_NANO = 3_600_000_000_000n;

/** Finds the usual trace of the same first request, and compares with it. */
export function Usual({ tree }: { tree: Tree }) {
  const [said, setSaid] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const { trace } = tree;
  const root = trace.spans.find((span) => span.parent === null);
  if (!root) return null;
  const find = async () => {
    setBusy(true);
    setSaid(null);
    const from = BigInt(trace.start_unix_nano);
    try {
      const answer = await get<SearchAnswer>("search", {
        service: root.service,
        operation: root.operation,
        start: String(from - HOUR_NANO),
        end: String(from + BigInt(trace.duration_nano)),
        limit: MOST_TRACES,
      });
      const begins = { trace: trace.trace_id, service: root.service, operation: root.operation };
      const found = usual(answer.traces, begins);
      if (found === null)
        setSaid(`No other trace of the hour before begins with ${root.operation}.`);
      else {
        setSaid(`The median of the last ${plural(found.of, "trace")} that began with it.`);
        setParams({ with: found.id }, "push");
      }
    } catch (problem) {
      setSaid(problem instanceof Error ? problem.message : String(problem));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="compare-with">
      <button
        type="button"
        className="button"
        data-testid="compare-usual"
        disabled={busy}
        title={`With the trace of median duration of those that begin with ${root.operation}, in the hour before`}
        onClick={() => void find()}
      >
        Compare with the usual
      </button>
      <span role="status" className="quiet">
        {busy ? "Looking for it …" : said}
      </span>
    </div>
  );
}
