import { useRef } from "react";
import { useOperations, useServices, useSources } from "../../api/queries";
import type { Relation, SourceChain, Sources } from "../../api/types";
import { Link, setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { formatCount, formatRate, formatShare, plural } from "../../model/number";
import { byDistance, DEPTHS, distanceText, shareOf } from "../../model/sources";
import { AnalysisPage } from "../../parts/AnalysisPage";
import { Blank } from "../../parts/Blank";
import { Combobox } from "../../parts/Combobox";
import { OperationLink, operationKey } from "../../parts/OperationLink";
import { Service } from "../../parts/Service";
import { Share } from "../../parts/Share";
import { usePageRange, withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

/** Who calls a service or operation, whom it calls, and in which chains, at any distance. */
export default function SourcesPage({ when }: { when: string }) {
  const { params } = usePlace();
  const range = usePageRange();
  const service = params.get("service") ?? "";
  const operation = params.get("operation") ?? "";
  const depth = DEPTHS.find((one) => String(one) === params.get("depth")) ?? null;
  const answer = useSources(range, service, operation, depth === null ? "" : String(depth));
  const services = useServices();
  const operations = useOperations(service);
  const field = useRef<HTMLInputElement>(null);
  useShortcuts({ "/": () => field.current?.focus() });
  const names = (services.data?.services ?? []).map(({ name }) => ({ value: name }));
  return (
    <AnalysisPage
      title="Sources"
      when={when}
      testid="sources"
      range={range}
      answer={service === "" ? null : answer}
      tools={
        <>
          <Combobox
            inputRef={field}
            label="Service"
            testid="sources-service"
            placeholder="Service, or protocol such as mysql"
            value={service}
            choices={names}
            onChoose={(chosen) => setParams({ service: chosen || null, operation: null }, "push")}
          />
          <Combobox
            label="Operation"
            testid="sources-operation"
            placeholder="Any operation"
            value={operation}
            disabled={service === ""}
            choices={[...new Set(operations.data?.operations.map(({ name }) => name))].map(
              (value) => ({ value }),
            )}
            onChoose={(chosen) => setParams({ operation: chosen || null }, "push")}
          />
          <select
            aria-label="Distance"
            data-testid="sources-depth"
            data-set={depth !== null}
            value={depth ?? ""}
            onChange={(event) => setParams({ depth: event.target.value || null }, "push")}
          >
            {DEPTHS.map((one) => (
              <option key={one} value={one ?? ""}>
                {one === null
                  ? "Any distance"
                  : one === 1
                    ? "Direct calls"
                    : `At most ${one} calls`}
              </option>
            ))}
          </select>
          {service !== "" && (
            <Link className="button" to={withRange("/map", range, { focus: service })}>
              On the map
            </Link>
          )}
        </>
      }
      choose={
        <section className="card" aria-labelledby="choose-title" data-testid="sources-choose">
          <h2 id="choose-title">Choose a service</h2>
          {names.length === 0 ? (
            <p>No service has sent spans yet.</p>
          ) : (
            <ul className="said columns">
              {names.map(({ value }) => (
                <li key={value}>
                  <Link to={withRange("/sources", range, { service: value })}>
                    <Service name={value} />
                  </Link>
                </li>
              ))}
            </ul>
          )}
        </section>
      }
    >
      {(found) => <Found found={found} service={service} range={range} />}
    </AnalysisPage>
  );
}

function Found(props: { found: Sources; service: string; range: PageRange }) {
  const { found, range } = props;
  if (found.calls === 0) {
    return (
      <Blank title={`No call of ${props.service} in this time`}>
        <p>
          A longer range may have some. What was called and not captured has its protocol as its
          name, such as <code>mysql</code>.
        </p>
      </Blank>
    );
  }
  return (
    <>
      <p className="chain-facts" data-testid="sources-sum" data-calls={found.calls}>
        <span>{plural(found.calls, "call")}</span>
        <span>{formatRate(found.calls_per_second)}</span>
        <span className={found.errors > 0 ? "is-error" : ""}>
          {formatShare(found.errors / found.calls)} failed
        </span>
      </p>
      <div className="overview-pair">
        <Relations
          title="Who causes them"
          testid="callers"
          none="Nobody: it is an entrance."
          relations={found.callers}
          calls={found.calls}
          range={range}
        />
        <Relations
          title="What it causes"
          testid="called"
          none="It calls nothing."
          relations={found.called}
          calls={null}
          range={range}
        />
      </div>
      <Chains chains={found.chains} range={range} />
    </>
  );
}

function Relations(props: {
  title: string;
  testid: string;
  none: string;
  relations: readonly Relation[];
  /** Calls that the relations are a share of; null if they are calls of their own. */
  calls: number | null;
  range: PageRange;
}) {
  const { calls } = props;
  return (
    <section className="card" aria-labelledby={`${props.testid}-title`}>
      <h2 id={`${props.testid}-title`}>{props.title}</h2>
      {props.relations.length === 0 ? (
        <p>{props.none}</p>
      ) : (
        <div className="scroll-x" tabIndex={0} role="group" aria-label={props.title}>
          <table className="red-table row-table" data-testid={`sources-${props.testid}`}>
            {byDistance(props.relations).map((step) => (
              <tbody key={step.distance}>
                <tr className="step">
                  <th scope="rowgroup" colSpan={3}>
                    {distanceText(step.distance)}
                  </th>
                </tr>
                {step.relations.map((one) => (
                  <tr
                    key={operationKey(one)}
                    data-service={one.service}
                    data-distance={one.distance}
                    data-calls={one.calls}
                  >
                    <th scope="row">
                      <OperationLink of={one} range={props.range} />
                    </th>
                    <td className="number">{formatRate(one.calls_per_second)}</td>
                    <td className="number">
                      {calls === null ? formatCount(one.calls) : <Share of={shareOf(one, calls)} />}
                    </td>
                  </tr>
                ))}
              </tbody>
            ))}
          </table>
        </div>
      )}
    </section>
  );
}

function Chains({ chains, range }: { chains: readonly SourceChain[]; range: PageRange }) {
  return (
    <section className="card" aria-labelledby="through-title">
      <h2 id="through-title">Through which chains</h2>
      {chains.length === 0 ? (
        <p>Through none that was seen as a whole.</p>
      ) : (
        <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of chains">
          <table className="red-table" data-testid="sources-chains">
            <thead>
              <tr>
                <th scope="col">Chain from</th>
                <th scope="col">Runs</th>
                <th scope="col" title="How often a run of the chain calls it">
                  CR
                </th>
                <th scope="col">Calls</th>
                <th scope="col">Of all calls</th>
              </tr>
            </thead>
            <tbody>
              {chains.map((chain) => (
                <tr key={chain.id} data-chain={chain.id}>
                  <th scope="row">
                    <Link to={withRange(`/chains/${chain.id}`, range)}>
                      <Service name={chain.service} /> <span>{chain.operation}</span>
                    </Link>
                  </th>
                  <td className="number">{formatCount(chain.runs)}</td>
                  <td className="number">{chain.cr.toFixed(2)}</td>
                  <td className="number">{formatCount(chain.calls)}</td>
                  <td className="number">
                    <Share of={chain.share} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
