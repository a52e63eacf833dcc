import { useMemo } from "react";
import { useGraph } from "../../api/queries";
import type { Graph } from "../../api/types";
import { Colours, useServiceStyle } from "../../app/palette";
import { Link, setParams, usePlace } from "../../app/router";
import { useShortcuts } from "../../app/shortcuts";
import { useTitle } from "../../app/title";
import { formatCount } from "../../model/number";
import { DEFAULT_START } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { Combobox } from "../../parts/Combobox";
import { TimeRange } from "../../parts/TimeRange";
import { edgeId, neighbourhood } from "./edges";
import { EdgeTable } from "./EdgeTable";
import { Legend } from "./Legend";
import { EdgePanel, NodePanel } from "./Panel";
import { Picture } from "./Picture";

export default function MapPage() {
  const { params } = usePlace();
  const start = params.get("start") ?? DEFAULT_START;
  const end = params.get("end") ?? "now";
  const focus = params.get("focus");
  const live = params.get("live") === "1";
  const graph = useGraph(start, end, live);
  const names = useMemo(() => graph.data?.nodes.map((node) => node.name) ?? [], [graph.data]);
  useTitle(focus ?? undefined, "Map");
  return (
    <Colours names={names}>
      <main className="map-page" data-testid="map" data-nodes={names.length}>
        <h1 className="unseen">Map of services</h1>
        <Tools start={start} end={end} live={live} focus={focus} graph={graph.data} />
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
          <Stage graph={graph.data} focus={focus} start={start} end={end} />
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
function Stage(props: { graph: Graph; focus: string | null; start: string; end: string }) {
  const { graph, focus } = props;
  const { params, entry } = usePlace();
  const chosen = params.get("edge");
  const named = params.get("node");
  const known = focus !== null && graph.nodes.some((node) => node.name === focus);
  const shown = useMemo(() => (known ? neighbourhood(graph, focus) : graph), [graph, focus, known]);
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
              ? `Only ${focus} and its neighbours`
              : `${focus} made and took no call in this time; all are shown`}
            <button
              type="button"
              className="button tiny"
              onClick={() => setParams({ focus: null }, "push")}
            >
              All services
            </button>
          </p>
        )}
      </div>
      <div className="map-table">
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
