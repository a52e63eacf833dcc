import { useEffect, useRef } from "react";
import { useGraph } from "../../api/queries";
import { useServicesRed } from "../../api/red";
import { navigate, setParams, usePlace } from "../../app/router";
import { useScroll } from "../../app/visit";
import { DEFAULT_START } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { Prose } from "../../parts/Prose";
import { TimeRange } from "../../parts/TimeRange";
import { usePageRange } from "../../parts/range";
import { Empty } from "../search/Empty";
import { asked, narrowed } from "../search/question";
import { Changes } from "./Changes";
import { Health } from "./Health";
import { Services } from "./Services";

/** The system at a glance: its services over time, what changed, and what is not seen. */
export function OverviewPage() {
  const { params, entry } = usePlace();
  const range = usePageRange();
  const services = useServicesRed(range.on);
  const graph = useGraph(range.start, range.end, false);
  const page = useRef<HTMLElement>(null);
  useScroll(page, entry, "overview", services.data !== undefined);
  // The search was at this address once: links to it still work.
  const search = narrowed(asked(params)) || params.has("sort") || params.has("limit");
  useEffect(() => {
    if (search) navigate(`/search${window.location.search}`, "replace");
  }, [search]);
  const error = services.error ?? graph.error;
  // Without charts, the figures of the graph are still worth a page.
  const red = services.data?.red ?? (services.isError ? [] : undefined);
  const nothing = graph.data?.nodes.length === 0 && red?.length === 0;
  return (
    <main className="page" ref={page} tabIndex={-1} data-testid="overview">
      <div className="overview">
        <header className="overview-head">
          <h1>Overview</h1>
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
        {error && <Failure error={error} />}
        {services.data?.warnings.map((one) => (
          <div key={one} className="notice warn">
            <Prose text={one} />
          </div>
        ))}
        {nothing ? (
          <Empty asked={asked(params)} said={[]} />
        ) : red && graph.data ? (
          <>
            <div className="overview-top">
              <Changes range={range} now={graph.data} />
              <Health />
            </div>
            <Services red={red} graph={graph.data} range={range} />
          </>
        ) : (
          !error && <Blank title="Loading the overview" busy />
        )}
      </div>
    </main>
  );
}
