import { useRef } from "react";
import type { ReactNode } from "react";
import { useStatus } from "../../api/queries";
import { usePlace } from "../../app/router";
import { useScroll } from "../../app/visit";
import { useZone } from "../../app/zone";
import type { Agent, HostClock, ReportingAgent, Status } from "../../api/types";
import { formatDuration } from "../../model/duration";
import { figures } from "../../model/figures";
import type { Figure } from "../../model/figures";
import { Counters } from "./Counters";
import { formatCount, plainName, plural } from "../../model/number";
import { formatAge } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { Prose } from "../../parts/Prose";
import { useNow } from "../../parts/useNow";

const AGENT_STATES = {
  running: ["running", "ok"],
  starting: ["starting", ""],
  off: ["off", "warn"],
  remote: ["on other machines", ""],
} as const;

export function StatusPage() {
  const status = useStatus();
  const { entry } = usePlace();
  const page = useRef<HTMLElement>(null);
  useScroll(page, entry, "status", status.data !== undefined);
  if (status.isError) {
    return (
      <main className="page">
        <div className="status">
          <Failure error={status.error} />
        </div>
      </main>
    );
  }
  if (!status.data) {
    return (
      <main className="page">
        <Blank title="Asking the server" busy whole />
      </main>
    );
  }
  return (
    <main className="page" ref={page} tabIndex={0}>
      <Report status={status.data} />
    </main>
  );
}

function Report({ status }: { status: Status }) {
  const zone = useZone();
  const { state } = status.agent;
  const reason = status.agent.state === "off" ? status.agent.reason : null;
  // Remote agents have a card of their own, and all counters are in one table.
  const { counters: _store, warnings: storeWarnings, ...store } = status.store;
  const { assembly, ...server } = status.server;
  const { clocks, counters: _assembly, ...assembled } = assembly;
  const { counters: _ingest, agents, ...ingest } = status.ingest;
  const warnings = [...new Set([...status.warnings, ...storeWarnings])];
  const grave = new Set(
    status.counters.filter((one) => one.level !== "info").map((one) => one.name),
  );
  // A warning is left out if a counter in the table below says the same.
  const notices = warnings.filter(
    (warning) =>
      !status.counters.some(
        ({ level, part, name }) =>
          level !== "info" && warning.startsWith(`${part}: `) && warning.includes(` (${name}: `),
      ),
  );
  const [stateName, stateClass] = AGENT_STATES[state] ?? [state, ""];
  return (
    <div className="status" data-testid="status" data-agent={state}>
      <div className="status-head">
        <h1>Spanwise {status.version}</h1>
        <span className="quiet">up for {formatDuration(status.uptime_seconds * 1e9)}</span>
      </div>
      <div className="status-notices">
        {notices.map((warning) => (
          <div key={warning} className="notice warn" role="status">
            <Prose text={warning} />
          </div>
        ))}
        {!status.attention && warnings.length === 0 && (
          <div className="notice" data-testid="calm">
            Nothing needs your attention.
          </div>
        )}
      </div>
      <Counters counters={status.counters} />
      <div className="status-cards">
        <Card title="Agent" badge={<span className={`badge ${stateClass}`}>{stateName}</span>}>
          {reason && (
            <p>
              <Prose text={reason} />
            </p>
          )}
          {state === "off" && (
            <p>
              Without it only spans that applications send are seen. <code>spanwise doctor</code>{" "}
              tells what this kernel allows.
            </p>
          )}
          <Table list={figures(agentFacts(status.agent), zone)} />
        </Card>
        {(state !== "running" || agents.length > 1) && agents.length > 0 && (
          <Card title="Agents that report here">
            <Agents agents={agents} grave={grave} />
          </Card>
        )}
        <Card title="Store">
          <Table list={figures(store, zone)} />
        </Card>
        <Card title="Ingest">
          <Table list={figures(ingest, zone)} />
        </Card>
        {clocks.length > 0 && (
          <Card title="Clocks, by the calls between hosts">
            <Clocks clocks={clocks} />
          </Card>
        )}
        <Card title="Server">
          <Table list={figures({ ...server, assembly: assembled }, zone)} />
        </Card>
      </div>
    </div>
  );
}

/** What the agent in the server's process reports about itself, without its counters. */
function agentFacts(agent: Agent): object {
  if (agent.state !== "running") return {};
  const { state: _state, counters: _counters, hook, ...facts } = agent;
  return hook === undefined ? facts : { hook, ...facts };
}

function Card(props: { title: string; badge?: ReactNode; children: ReactNode }) {
  return (
    <section className="card" aria-label={props.title}>
      <h2>
        {props.title}
        {props.badge}
      </h2>
      {props.children}
    </section>
  );
}

function Agents({
  agents,
  grave,
}: {
  agents: readonly ReportingAgent[];
  grave: ReadonlySet<string>;
}) {
  const now = useNow();
  return (
    <table>
      <tbody>
        {agents.map((agent) => {
          const lost = Object.entries(agent.facts?.counters ?? {}).filter(
            ([name, count]) => Number(count) > 0 && grave.has(name),
          );
          return (
            <tr key={agent.source} className={lost.length > 0 ? "lost" : ""}>
              <th scope="row" title={`${agent.source}, from ${agent.address ?? "?"}`}>
                {agent.facts?.host ?? agent.address ?? agent.source}
              </th>
              <td
                title={lost
                  .map(([name, count]) => `${plainName(name)}: ${formatCount(Number(count))}`)
                  .join("\n")}
              >
                {plural(Number(agent.spans), "span")} ·{" "}
                {agent.connected
                  ? "connected"
                  : `last seen ${formatAge(Number(agent.last_seen_unix_nano) / 1e6, now)} ago`}
                {lost.length > 0 && ` · ${plural(lost.length, "kind")} of loss`}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Clocks({ clocks }: { clocks: readonly HostClock[] }) {
  return (
    <table data-testid="clocks">
      <tbody>
        {clocks.map(({ host, reference, ahead_nano, uncertainty_nano, exchanges }) => (
          <tr key={`${host} ${reference}`}>
            <th scope="row">
              {host} and {reference}
            </th>
            <td
              title={`${host} is this far ahead of ${reference}, by ${plural(Number(exchanges), "call")}`}
            >
              {formatDuration(Math.abs(Number(ahead_nano)))}{" "}
              {Number(ahead_nano) < 0 ? "behind" : "ahead"} ±{" "}
              {formatDuration(Number(uncertainty_nano))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Table({ list }: { list: readonly Figure[] }) {
  if (list.length === 0) return null;
  return (
    <table>
      <tbody>
        {list.map((one) => (
          <tr key={one.key} data-key={one.key}>
            <th scope="row" title={one.key}>
              {one.name}
            </th>
            <td>{one.text}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
