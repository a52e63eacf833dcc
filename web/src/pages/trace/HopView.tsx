import { useMemo } from "react";
import { setParams, usePlace } from "../../app/router";
import { formatDuration } from "../../model/duration";
import { hops, inWords, PART_NAMES, PART_ORDER } from "../../model/hops";
import type { Hop } from "../../model/hops";
import { plural } from "../../model/number";
import { outcome } from "../../model/outcome";
import type { Tree } from "../../model/tree";
import { Service } from "../../parts/Service";

/** Hops that are listed: the first or the slowest. */
const MOST_HOPS = 300;

const betweenNano = (hop: Hop): number =>
  hop.parts.reduce(
    (sum, part) => (part.kind === "own" || part.kind === "calls" ? sum : sum + part.nano),
    0,
  );

const ORDERS = [
  ["", "In their order", null],
  ["total", "Longest first", (hop: Hop) => hop.totalNano],
  ["between", "Most time between", betweenNano],
] as const;

/** Each hop between two processes: where its time went, as bars and in words. */
export function HopView({ tree }: { tree: Tree }) {
  const { params } = usePlace();
  const all = useMemo(() => hops(tree), [tree]);
  const order = ORDERS.find(([id]) => id === params.get("by")) ?? ORDERS[0];
  const [, , figure] = order;
  const sorted = figure === null ? all : [...all].sort((a, b) => figure(b) - figure(a));
  const shown = sorted.slice(0, MOST_HOPS);
  const longest = shown.reduce((most, hop) => Math.max(most, hop.totalNano), 1);
  const kinds = PART_ORDER.filter((kind) =>
    all.some((hop) => hop.parts.some((part) => part.kind === kind)),
  );
  return (
    <div className="trace-view" tabIndex={0} role="group" aria-label="Hops">
      <p className="explained">
        A hop is a call from one process to another. Its time is divided by where it was seen. A
        striped part is an estimate: the connection&apos;s usual round trip, not this call&apos;s.
      </p>
      <div className="hop-tools">
        <span className="segments" role="group" aria-label="Order of the hops">
          {ORDERS.map(([id, name]) => (
            <button
              key={id}
              type="button"
              className="button"
              aria-pressed={order[0] === id}
              onClick={() => setParams({ by: id === "" ? null : id })}
            >
              {name}
            </button>
          ))}
        </span>
        <ul className="hop-legend">
          {kinds.map((kind) => (
            <li key={kind}>
              <i data-part={kind} /> {PART_NAMES[kind]}
            </li>
          ))}
        </ul>
      </div>
      {all.length === 0 && <p className="explained">No call between two processes was seen.</p>}
      <ol className="hops" data-testid="hops" data-hops={all.length}>
        {shown.map((hop) => (
          <li
            key={hop.client.span_id}
            data-hop={hop.client.span_id}
            data-total={hop.totalNano}
            data-sum={hop.parts.reduce((sum, part) => sum + part.nano, 0)}
          >
            <div className="hop-head">
              <Service name={hop.client.service} />
              <span aria-label="to">→</span>
              {hop.server && hop.server.service !== hop.client.service && (
                <Service name={hop.server.service} />
              )}
              <button
                type="button"
                className={`link cut${outcome(hop.client).failed ? " is-error" : ""}`}
                onClick={() => setParams({ view: null, span: hop.client.span_id }, "push")}
              >
                {hop.client.operation}
              </button>
              <span className="number">{formatDuration(hop.totalNano)}</span>
            </div>
            <div className="hop-bar" style={{ width: `${(hop.totalNano / longest) * 100}%` }}>
              {hop.parts.map((part) => (
                <i
                  key={part.kind}
                  data-part={part.kind}
                  data-estimated={part.estimated}
                  style={{ flexGrow: part.nano }}
                  title={`${part.estimated ? "about " : ""}${formatDuration(part.nano)} in ${PART_NAMES[part.kind]}`}
                />
              ))}
            </div>
            <p className="quiet">{inWords(hop)}</p>
          </li>
        ))}
      </ol>
      {all.length > shown.length && (
        <p className="explained">{plural(all.length - shown.length, "more hop")} not listed.</p>
      )}
    </div>
  );
}
