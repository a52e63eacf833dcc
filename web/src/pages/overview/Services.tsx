import { Link, setParams, usePlace } from "../../app/router";
import type { Graph } from "../../api/types";
import { formatDuration } from "../../model/duration";
import { formatRate, formatShare, plural } from "../../model/number";
import { SORTS, serviceRows } from "../../model/overview";
import type { OverviewSort, ServiceRow } from "../../model/overview";
import type { Red } from "../../model/series";
import { THEIRS } from "../../model/theirs";
import { Service } from "../../parts/Service";
import { Spark } from "../../parts/Spark";
import { withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

const NAMES: Record<OverviewSort, string> = {
  name: "Service",
  rate: "Requests",
  errors: "Errors",
  latency: "p95",
};

export function Services(props: { red: readonly Red[]; graph: Graph; range: PageRange }) {
  const { params } = usePlace();
  const sort = SORTS.find((one) => one === params.get("sort-by")) ?? "rate";
  const rows = serviceRows(props.graph, props.red, sort);
  const ours = rows.filter((row) => row.theirs === null);
  const folded = rows.filter((row) => row.theirs !== null);
  const open = params.get("all") === "1";
  return (
    <section className="card" aria-labelledby="services-title" data-testid="services">
      <h2 id="services-title">
        Services
        <Link className="button tiny" to={withRange("/map", props.range)}>
          Map
        </Link>
      </h2>
      <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of services">
        <table className="red-table">
          <thead>
            <tr>
              {SORTS.map((one) => (
                <th
                  key={one}
                  scope="col"
                  aria-sort={one !== sort ? "none" : one === "name" ? "ascending" : "descending"}
                >
                  <button
                    type="button"
                    className="button tiny plain"
                    onClick={() => setParams({ "sort-by": one === "rate" ? null : one }, "push")}
                  >
                    {sort === one ? "↓ " : ""}
                    {NAMES[one]}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ours.map((row) => (
              <Row key={row.node.name} row={row} range={props.range} />
            ))}
            {open && folded.map((row) => <Row key={row.node.name} row={row} range={props.range} />)}
          </tbody>
        </table>
      </div>
      {folded.length > 0 && (
        <p className="folded">
          <button
            type="button"
            className="button tiny"
            aria-expanded={open}
            data-testid="unfold"
            onClick={() => setParams({ all: open ? null : "1" })}
          >
            {open ? "Fold" : "Show"} {plural(folded.length, "other program")}
          </button>{" "}
          <span className="quiet">
            Folded by name: {THEIRS}, and what nobody named
            {!open &&
              ` (${folded
                .slice(0, 4)
                .map((row) => row.node.name)
                .join(", ")}${folded.length > 4 ? ", …" : ""})`}
            .
          </span>
        </p>
      )}
    </section>
  );
}

function Row({ row, range }: { row: ServiceRow; range: PageRange }) {
  const { node, red } = row;
  const rate = formatRate(row.requestsPerSecond);
  const errors = formatShare(row.errorShare);
  const latency = formatDuration(row.p95Nano);
  return (
    <tr data-service={node.name} data-requests={node.requests}>
      <th scope="row">
        <Link to={withRange(`/service/${encodeURIComponent(node.name)}`, range)}>
          <Service name={node.name} />
        </Link>
        {node.kind !== "service" && <span className="label"> {node.system ?? node.kind}</span>}
      </th>
      <td className="number">
        {red && <Spark values={red.rate.values} tone="rate" text={`Requests over time: ${rate}`} />}
        <span>{rate}</span>
      </td>
      <td className={`number${node.errors > 0 ? " is-error" : ""}`}>
        {red && (
          <Spark
            values={red.errors.values}
            tone="error"
            top={Math.max(0.05, ...red.errors.values.map((one) => one ?? 0))}
            text={`Errors over time: ${errors}`}
          />
        )}
        <span>{errors}</span>
      </td>
      <td className="number">
        {red && (
          <Spark values={red.latency.values} tone="latency" text={`p95 over time: ${latency}`} />
        )}
        <span>{node.requests === 0 ? "–" : latency}</span>
      </td>
    </tr>
  );
}
