import { useMemo } from "react";
import { useGraph } from "../../api/queries";
import type { Graph } from "../../api/types";
import { Colours, useServiceStyle } from "../../app/palette";
import { Link, setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { useTitle } from "../../app/title";
import { formatCount, plural } from "../../model/number";
import { DEFAULT_START } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { Combobox } from "../../parts/Combobox";
import { TimeRange } from "../../parts/TimeRange";
import { atLeast, edgeId, foremost, neighbourhood } from "./edges";
import { EdgeTable } from "./EdgeTable";
import { Legend } from "./Legend";
import { EdgePanel, NodePanel } from "./Panel";
import { Picture } from "./Picture";

/** A picture of more can neither be drawn fluently nor be read. */
const MOST_NODES = 2000;
const HOPS = [1, 2, 3, 4];
/** Calls per second that a call needs to be shown. */
const LEAST_RATES = ["0.01", "0.1", "1", "10", "100"];

export default function MapPage() {
  const { params } = usePlace();
  const start = params.get("start") ?? DEFAULT_START;
  const end = params.get("end") ?? "now";
  const focus = params.get("focus");
  const least = LEAST_RATES.find((rate) => rate === params.get("least")) ?? "";
  const live = params.get("live") === "1";
  const graph = useGraph(start, end, live);
  const names = useMemo(() => graph.data?.nodes.map((node) => node.name) ?? [], [graph.data]);
  useTitle(focus ?? undefined, "Map");
  return (
    <Colours names={names}>
      <main className="map-page" data-testid="map" data-nodes={names.length}>
        <h1 className="unseen">Map of services</h1>
        <Tools start={start} end={end} live={live} focus={focus} least={least} graph={graph.data} />
        {graph.isError ? (
          <div className="room">
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
          <Stage graph={graph.data} least={Number(least)} focus={focus} start={start} end={end} />
        )}
      </main>
    </Colours>
  );
}

function Tools(props: {
  start: string;
  end: string;
  live: boolean;
  focus: string | null;
  least: string;
  graph: Graph | undefined;
}) {
  const serviceStyle = useServiceStyle();
  const nodes = props.graph?.nodes ?? [];
  return (
    <div className="map-tools">
      <TimeRange
        start={props.start}
        end={props.end}
        set={props.start !== DEFAULT_START || props.end !== "now"}
        onChange={(from, to) =>
          setParams(
            { start: from === DEFAULT_START ? null : from, end: to === "now" ? null : to },
            "push",
          )
        }
      />
      <Combobox
        label="Service"
        testid="focus"
        placeholder="Find a service"
        value={props.focus ?? ""}
        choices={nodes.map((node) => ({
          value: node.name,
          mark: <span className="swatch" style={serviceStyle(node.name)} />,
          note: node.kind === "service" ? formatCount(node.requests) : node.kind,
        }))}
        onChoose={(name) =>
          setParams({ focus: name || null, node: name || null, edge: null }, "push")
        }
      />
      <select
        aria-label="Hide rare calls"
        data-testid="least"
        value={props.least}
        onChange={(event) => setParams({ least: event.target.value || null }, "push")}
      >
        <option value="">Calls of any rate</option>
        {LEAST_RATES.map((rate) => (
          <option key={rate} value={rate}>
            {rate} calls/s and more
          </option>
        ))}
      </select>
      <button
        type="button"
        className="button"
        aria-pressed={props.live}
        onClick={() => setParams({ live: props.live ? null : "1" })}
      >
        <span className="live-dot" />
        Live
      </button>
      <Legend />
    </div>
  );
}

/** The picture with the table below, and the details of the selection beside both. */
function Stage(props: {
  graph: Graph;
  /** Calls per second that a call needs to be shown. */
  least: number;
  focus: string | null;
  start: string;
  end: string;
}) {
  const { graph, focus, least } = props;
  const { params, entry } = usePlace();
  const chosen = params.get("edge");
  const named = params.get("node");
  const hops = HOPS.find((one) => String(one) === params.get("hops")) ?? 1;
  const known = focus !== null && graph.nodes.some((node) => node.name === focus);
  const asked = useMemo(() => {
    const busy = atLeast(graph, least);
    return known ? neighbourhood(busy, focus, hops) : busy;
  }, [graph, least, focus, known, hops]);
  const shown = useMemo(() => foremost(asked, MOST_NODES, focus), [asked, focus]);
  const range = { start: props.start, end: props.end };
  const edge = chosen === null ? undefined : graph.edges.find((one) => edgeId(one) === chosen);
  const node = named === null ? undefined : graph.nodes.find((one) => one.name === named);
  const choose = (id: string | null) => setParams({ edge: id, node: null });
  useShortcuts({ Escape: () => choose(null) });
  return (
    <div className={`map-stage${edge || node ? " detailed" : ""}`}>
      <div className="map-canvas">
        <Picture
          graph={shown}
          scope={known ? focus : ""}
          chosen={chosen}
          onNode={(name) => setParams({ node: name, edge: null })}
          onEdge={choose}
        />
        {focus !== null && (
          <p className="map-focus" role="status" data-testid="map-focus">
            {known
              ? `Only ${focus} and its neighbours, up to`
              : `${focus} made and took no call in this time; all are shown`}
            {known && (
              <select
                aria-label="Calls away"
                data-testid="hops"
                value={hops}
                onChange={(event) =>
                  setParams(
                    { hops: event.target.value === "1" ? null : event.target.value },
                    "push",
                  )
                }
              >
                {HOPS.map((one) => (
                  <option key={one} value={one}>
                    {plural(one, "call")} away
                  </option>
                ))}
              </select>
            )}
            <button
              type="button"
              className="button tiny"
              onClick={() => setParams({ focus: null, hops: null }, "push")}
            >
              All services
            </button>
          </p>
        )}
      </div>
      <div className="map-table">
        {shown !== asked && (
          <div className="notice" data-testid="map-cut">
            The {formatCount(shown.nodes.length)} busiest of {formatCount(asked.nodes.length)}{" "}
            services are shown, with the {formatCount(shown.edges.length)} of{" "}
            {formatCount(asked.edges.length)} calls among them. Find a service to see what is around
            it, or hide rare calls.
          </div>
        )}
        {(graph.warnings ?? []).map((warning) => (
          <div key={warning} className="notice warn">
            {warning}
          </div>
        ))}
        <EdgeTable edges={shown.edges} chosen={chosen} visit={entry} onChoose={choose} />
      </div>
      {edge ? (
        <EdgePanel edge={edge} range={range} onClose={() => choose(null)} />
      ) : (
        node && (
          <NodePanel
            graph={graph}
            node={node}
            range={range}
            focused={focus === node.name}
            onFocus={() => setParams({ focus: node.name }, "push")}
            onEdge={choose}
            onClose={() => choose(null)}
          />
        )
      )}
    </div>
  );
}
