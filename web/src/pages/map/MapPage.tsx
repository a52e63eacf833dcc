import { useGraph } from "../../api/queries";
import type { GraphEdge } from "../../api/types";
import { introduce } from "../../app/palette";
import { Link, navigate, setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, formatRate, formatShare } from "../../model/number";
import { DEFAULT_START } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { Service } from "../../parts/Service";
import { TimeRange } from "../../parts/TimeRange";
import { edgeId } from "./edges";
import { EdgeTable } from "./EdgeTable";
import { heightFor } from "./look";
import { Picture } from "./Picture";

/** The search page's address with the map's time. */
function searchLink(start: string, end: string, parameters: Record<string, string>): string {
  const query = new URLSearchParams(parameters);
  if (start !== DEFAULT_START) query.set("start", start);
  if (end !== "now") query.set("end", end);
  return `/?${query.toString()}`;
}

export default function MapPage() {
  const { params } = usePlace();
  const start = params.get("start") ?? DEFAULT_START;
  const end = params.get("end") ?? "now";
  const chosen = params.get("edge");
  const live = params.get("live") === "1";
  const graph = useGraph(start, end, live);
  const choose = (edge: string | null) => setParams({ edge });
  useShortcuts({ Escape: () => choose(null) });
  if (graph.data) introduce(graph.data.nodes.map((node) => node.name));
  const edge = graph.data?.edges.find((one) => edgeId(one) === chosen);
  return (
    <main className="page">
      <div className="map-page" data-testid="map" data-nodes={graph.data?.nodes.length ?? 0}>
        <div className="map-tools">
          <TimeRange
            start={start}
            end={end}
            onChange={(from, to) =>
              setParams(
                { start: from === DEFAULT_START ? null : from, end: to === "now" ? null : to },
                "push",
              )
            }
          />
          <button
            type="button"
            className="button"
            aria-pressed={live}
            onClick={() => setParams({ live: live ? null : "1" })}
          >
            <span className="live-dot" />
            Live
          </button>
          <div className="legend" aria-hidden="true">
            <span>size, width: rate</span>
            <span className="is-error">red: errors</span>
            <span>labels: rate · p50 / p95</span>
            <span>click a service for its traces, a line for details</span>
          </div>
        </div>
        {graph.isError ? (
          <div style={{ padding: 16 }}>
            <Failure error={graph.error} />
          </div>
        ) : !graph.data ? (
          <Blank title="Loading the map" busy />
        ) : graph.data.nodes.length === 0 ? (
          <Blank title="No calls in this time">
            <p>A service appears here with its first request. See the status if none ever does.</p>
            <Link to="/status">Status</Link>
          </Blank>
        ) : (
          <>
            <div className="map-stage" style={{ minHeight: heightFor(graph.data) }}>
              <div className="map-canvas">
                <Picture
                  graph={graph.data}
                  chosen={chosen}
                  onNode={(service) => navigate(searchLink(start, end, { service }))}
                  onEdge={choose}
                />
              </div>
              {edge && (
                <EdgePanel edge={edge} start={start} end={end} onClose={() => choose(null)} />
              )}
            </div>
            <div>
              {(graph.data.warnings ?? []).map((warning) => (
                <div key={warning} className="notice warn" style={{ margin: 12 }}>
                  {warning}
                </div>
              ))}
              <EdgeTable edges={graph.data.edges} chosen={chosen} onChoose={choose} />
            </div>
          </>
        )}
      </div>
    </main>
  );
}

function EdgePanel(props: { edge: GraphEdge; start: string; end: string; onClose: () => void }) {
  const { edge } = props;
  return (
    <aside className="edge-panel" data-testid="edge-panel">
      <header>
        <h2>
          <Service name={edge.client} />
          <span>
            <span className="quiet">→ </span>
            <Service name={edge.server} />
          </span>
        </h2>
        <button
          type="button"
          className="button plain icon"
          aria-label="Close"
          onClick={props.onClose}
        >
          ×
        </button>
      </header>
      <dl>
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
        <dd className={edge.certain_share < 0.999 ? "warn-text" : ""}>
          {formatShare(edge.certain_share)}
        </dd>
      </dl>
      <div className="links">
        {edge.errors > 0 && (
          <Link
            className="button"
            to={searchLink(props.start, props.end, { service: edge.server, status: "error" })}
          >
            Traces where {edge.server} failed
          </Link>
        )}
        <Link
          className="button"
          to={searchLink(props.start, props.end, {
            service: edge.server,
            min: `${Math.floor(nano(edge.p95_nano) / 1000)}us`,
          })}
        >
          Slowest calls of {edge.server}
        </Link>
      </div>
    </aside>
  );
}
