import type { ReactNode } from "react";
import type { ObservedRuns } from "../api/types";
import { setParams } from "../app/router";
import { formatDuration } from "../model/duration";
import { formatCount, formatShare, plural } from "../model/number";
import { DEFAULT_START } from "../model/time";
import { Prose } from "./Prose";
import { TimeRange } from "./TimeRange";
import type { PageRange } from "./range";

/** The head of a page that analyses a range of time. */
export function Head(props: { range: PageRange; children: ReactNode }) {
  const { range } = props;
  return (
    <header className="overview-head">
      {props.children}
      <TimeRange
        start={range.start}
        end={range.end}
        set={range.start !== DEFAULT_START || range.end !== "now"}
        onChange={(start, end) =>
          setParams(
            { start: start === DEFAULT_START ? null : start, end: end === "now" ? null : end },
            "push",
          )
        }
      />
    </header>
  );
}

/** What an answer is of, and what limits it. */
export function Observed(props: { observed: ObservedRuns; warnings: readonly string[] }) {
  const { observed } = props;
  return (
    <>
      {props.warnings.map((one) => (
        <div key={one} className="notice warn">
          <Prose text={one} />
        </div>
      ))}
      <p className="quiet" data-testid="observed" data-runs={observed.runs}>
        Of {plural(observed.runs, "run")} in {formatDuration(observed.window_seconds * 1e9)}
        {observed.covered_by_rollups > 0 &&
          `; ${formatShare(observed.covered_by_rollups)} of them from rollups`}
        ; {formatCount(observed.spans)} spans read.
      </p>
    </>
  );
}
