import { useRef } from "react";
import { useGraph } from "../../api/queries";
import { useErrors, useOperationsRed, useServiceRed } from "../../api/red";
import { Link, setParams, usePlace } from "../../app/router";
import { useTitle } from "../../app/title";
import { useScroll } from "../../app/visit";
import { formatDuration } from "../../model/duration";
import { formatRate, formatShare } from "../../model/number";
import { coveredSeconds } from "../../model/series";
import { DEFAULT_START } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { Prose } from "../../parts/Prose";
import { Service } from "../../parts/Service";
import { TimeChart } from "../../parts/TimeChart";
import { TimeRange } from "../../parts/TimeRange";
import { usePageRange, withRange } from "../../parts/range";
import { WhenSeen } from "../../parts/WhenSeen";
import { Calls } from "./Calls";
import { ChainsThrough, Strengths } from "./Depends";
import { Errors } from "./Errors";
import { Network } from "./Network";
import { Operations } from "./Operations";
import { Statements } from "./Statements";

const seconds = (value: number) => formatDuration(value * 1e9);

/** One service: rate, errors and latency over time, its operations, and who calls whom. */
export function ServicePage({ name }: { name: string }) {
  useTitle(name);
  const { entry } = usePlace();
  const range = usePageRange();
  const service = useServiceRed(name, range.on);
  const operations = useOperationsRed(name, range.on);
  const errors = useErrors(range.on.from, range.on.to, name);
  const graph = useGraph(range.start, range.end, false);
  const page = useRef<HTMLElement>(null);
  useScroll(page, entry, "service", graph.data !== undefined);
  const failure = service.error ?? operations.error ?? errors.error ?? graph.error;
  const red = service.data?.red[0];
  const all = operations.data?.red ?? [];
  // The map's rates, unless it has only the newest spans.
  const covered =
    graph.data?.warnings.length === 0
      ? graph.data.window_seconds
      : coveredSeconds(all, range.on, range.endSeconds);
  return (
    <main className="page" ref={page} tabIndex={-1} data-testid="service-page">
      <div className="overview">
        <header className="overview-head">
          <h1>
            <Service name={name} />
          </h1>
          <Link className="button" to={withRange("/search", range, { service: name })}>
            Its traces
          </Link>
          <Link className="button" to={withRange("/map", range, { focus: name })}>
            On the map
          </Link>
          <Link className="button" to={withRange("/sources", range, { service: name })}>
            Who calls it
          </Link>
          <Link className="button" to={withRange("/causes", range, { service: name })}>
            Find the cause
          </Link>
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
        {failure && <Failure error={failure} />}
        {service.data?.warnings.map((one) => (
          <div key={one} className="notice warn">
            <Prose text={one} />
          </div>
        ))}
        {!service.data && !failure && <Blank title="Loading the service" busy />}
        {service.data && !red && (
          <div className="notice">
            It answered no request in this time. What it calls, and who calls it, is below.
          </div>
        )}
        {service.data && red && (
          <div className="charts">
            <TimeChart
              title="Requests per second"
              tone="rate"
              line={red.rate}
              on={service.data.on}
              format={formatRate}
            />
            <TimeChart
              title="Share of errors"
              tone="error"
              line={red.errors}
              on={service.data.on}
              least={0.05}
              format={formatShare}
            />
            <TimeChart
              title="Latency, p95; dots are traces"
              tone="latency"
              line={red.latency}
              on={service.data.on}
              format={seconds}
              examples
            />
          </div>
        )}
        {all.length > 0 && <Operations service={name} red={all} seconds={covered} range={range} />}
        <div className="overview-pair">
          {graph.data && <Calls graph={graph.data} name={name} side="callers" range={range} />}
          {graph.data && <Calls graph={graph.data} name={name} side="callees" range={range} />}
        </div>
        <Network service={name} range={range} />
        <Statements service={name} range={range} />
        {errors.data && <Errors service={name} groups={errors.data} range={range} />}
        <WhenSeen label="Dependencies and chains are read when you scroll here.">
          <Strengths service={name} range={range} />
          <ChainsThrough service={name} range={range} />
        </WhenSeen>
      </div>
    </main>
  );
}
