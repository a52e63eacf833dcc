import type { ReactNode } from "react";
import type { Graph, GraphEdge, GraphNode } from "../../api/types";
import { Link } from "../../app/router";
import { formatDuration, nano } from "../../model/duration";
import { measuredText, resentShare, resentText } from "../../model/network";
import { formatCount, formatRate, formatShare, plural } from "../../model/number";
import { DEFAULT_START } from "../../model/time";
import { Service } from "../../parts/Service";
import { edgeId, important } from "./edges";

/** Calls that are listed for a service. */
const MOST_LISTED = 12;

export interface Range {
  start: string;
  end: string;
}

/** The search page's address, with the time range of the map. */
function searchLink({ start, end }: Range, parameters: Record<string, string>): string {
  const query = new URLSearchParams(parameters);
  if (start !== DEFAULT_START) query.set("start", start);
  if (end !== "now") query.set("end", end);
  return `/search?${query.toString()}`;
}

function Panel(props: {
  title: ReactNode;
  name: string;
  testid: string;
  onClose: () => void;
  children: ReactNode;
}) {
  return (
    <aside className="map-panel" aria-label={props.name} data-testid={props.testid}>
      <header>
        <h2>{props.title}</h2>
        <button
          type="button"
          className="button plain icon"
          aria-label="Close"
          onClick={props.onClose}
        >
          ×
        </button>
      </header>
      {props.children}
    </aside>
  );
}

export function NodePanel(props: {
  graph: Graph;
  node: GraphNode;
  range: Range;
  focused: boolean;
  onFocus: () => void;
  onEdge: (id: string) => void;
  onClose: () => void;
}) {
  const { graph, node, range } = props;
  const calls = graph.edges.filter(
    ({ client, server }) => client === node.name || server === node.name,
  );
  const listed = important(calls, MOST_LISTED);
  return (
    <Panel
      name={node.name}
      testid="node-panel"
      title={<Service name={node.name} />}
      onClose={props.onClose}
    >
      <dl>
        <dt>Kind</dt>
        <dd>
          {node.kind}
          {node.system && ` · ${node.system}`}
        </dd>
        <dt>Rate</dt>
        <dd>{formatRate(node.requests / Math.max(graph.window_seconds, 1e-9))}</dd>
        <dt>Requests</dt>
        <dd>{formatCount(node.requests)}</dd>
        <dt>Errors</dt>
        <dd className={node.errors > 0 ? "is-error" : ""}>
          {formatCount(node.errors)} · {formatShare(node.errors / Math.max(1, node.requests))}
        </dd>
        <dt>p50 / p95</dt>
        <dd>
          {formatDuration(nano(node.p50_nano))} / {formatDuration(nano(node.p95_nano))}
        </dd>
      </dl>
      <div className="links">
        <Link className="button" to={searchLink(range, { service: node.name })}>
          Traces
        </Link>
        {node.errors > 0 && (
          <Link className="button" to={searchLink(range, { service: node.name, status: "error" })}>
            Failed traces
          </Link>
        )}
        <Link className="button" to={searchLink(range, { service: node.name, sort: "slowest" })}>
          Slowest traces
        </Link>
        {!props.focused && (
          <button type="button" className="button" onClick={props.onFocus}>
            Only its neighbours
          </button>
        )}
      </div>
      <h3>{plural(calls.length, "call")}</h3>
      <ul className="calls">
        {listed.map((edge) => (
          <li key={edgeId(edge)}>
            <button type="button" className="relative" onClick={() => props.onEdge(edgeId(edge))}>
              <span className="quiet">{edge.client === node.name ? "→" : "←"}</span>
              <Service name={edge.client === node.name ? edge.server : edge.client} />
              <span className={`number ${edge.errors > 0 ? "is-error" : "quiet"}`}>
                {formatRate(edge.requests_per_second)}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {calls.length > listed.length && (
        <p className="label">and {formatCount(calls.length - listed.length)} less important</p>
      )}
    </Panel>
  );
}

/** A closed group: its services, and what they have together. */
export function ClusterPanel(props: {
  graph: Graph;
  node: GraphNode;
  services: readonly string[];
  range: Range;
  onOpen: () => void;
  onClose: () => void;
}) {
  const { node, services, range } = props;
  const listed = services.slice(0, MOST_LISTED);
  return (
    <Panel name={node.name} testid="cluster-panel" title={node.name} onClose={props.onClose}>
      <dl>
        <dt>Rate</dt>
        <dd>{formatRate(node.requests / Math.max(props.graph.window_seconds, 1e-9))}</dd>
        <dt>Errors</dt>
        <dd className={node.errors > 0 ? "is-error" : ""}>
          {formatCount(node.errors)} · {formatShare(node.errors / Math.max(1, node.requests))}
        </dd>
        <dt>p95 of its slowest</dt>
        <dd>{formatDuration(nano(node.p95_nano))}</dd>
      </dl>
      <div className="links">
        <button type="button" className="button" data-testid="open-group" onClick={props.onOpen}>
          Open it
        </button>
      </div>
      <h3>{plural(services.length, "service")}</h3>
      <ul className="calls">
        {listed.map((name) => (
          <li key={name}>
            <Link
              className="relative"
              to={`/service/${encodeURIComponent(name)}?${new URLSearchParams({ ...range })}`}
            >
              <Service name={name} />
            </Link>
          </li>
        ))}
      </ul>
      {services.length > listed.length && (
        <p className="label">and {formatCount(services.length - listed.length)} more</p>
      )}
    </Panel>
  );
}

export function EdgePanel(props: {
  edge: GraphEdge;
  range: Range;
  /** Whether an end is a group, which has no traces of its own. */
  grouped: boolean;
  /** What differs from an earlier time. */
  change: string | null;
  onClose: () => void;
}) {
  const { edge, range } = props;
  return (
    <Panel
      name={`Calls from ${edge.client} to ${edge.server}`}
      testid="edge-panel"
      title={
        <>
          <Service name={edge.client} />
          <span>
            <span className="quiet">→ </span>
            <Service name={edge.server} />
          </span>
        </>
      }
      onClose={props.onClose}
    >
      <dl>
        {props.change && (
          <>
            <dt>Against before</dt>
            <dd>{props.change}</dd>
          </>
        )}
        <dt>Protocol</dt>
        <dd>{edge.protocol}</dd>
        <dt>Rate</dt>
        <dd>{formatRate(edge.requests_per_second)}</dd>
        <dt>Requests</dt>
        <dd>{formatCount(edge.requests)}</dd>
        <dt>Errors</dt>
        <dd className={edge.errors > 0 ? "is-error" : ""}>
          {formatCount(edge.errors)} · {formatShare(edge.error_share)}
        </dd>
        <dt>p50</dt>
        <dd>{formatDuration(nano(edge.p50_nano))}</dd>
        <dt>p95</dt>
        <dd>{formatDuration(nano(edge.p95_nano))}</dd>
        <dt>p99</dt>
        <dd>{formatDuration(nano(edge.p99_nano))}</dd>
        <dt>Certain links</dt>
        <dd>{formatShare(edge.certain_share)}</dd>
        <dt>Retransmits</dt>
        <dd className={resentShare(edge.network) ? "is-error" : ""}>{resentText(edge.network)}</dd>
        {edge.network && (
          <>
            <dt>Connect, p95</dt>
            <dd>{measuredText(edge.network.connect_p95_nano)}</dd>
            <dt>Round trip</dt>
            <dd>{measuredText(edge.network.rtt_p50_nano)}</dd>
          </>
        )}
      </dl>
      {!props.grouped && (
        <div className="links">
          {edge.errors > 0 && (
            <Link
              className="button"
              to={searchLink(range, { service: edge.server, status: "error" })}
            >
              Traces where {edge.server} failed
            </Link>
          )}
          <Link
            className="button"
            to={searchLink(range, {
              service: edge.server,
              min: `${Math.floor(nano(edge.p95_nano) / 1000)}us`,
              sort: "slowest",
            })}
          >
            Slowest calls of {edge.server}
          </Link>
        </div>
      )}
    </Panel>
  );
}
