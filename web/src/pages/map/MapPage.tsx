import { useMemo } from "react";
import { useNamespaces } from "../../api/namespaces";
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
import { absolute, TimeRange } from "../../parts/TimeRange";
import { useNow } from "../../parts/useNow";
import { applied, clustered, GROUPINGS, prefixOf } from "./clusters";
import type { Clustered, Grouping } from "./clusters";
import { COLOURING_NAMES, COLOURINGS } from "./colouring";
import type { Colouring } from "./colouring";
import { changeCounts, CHANGES, compared } from "./differences";
import type { Compared } from "./differences";
import { atLeast, edgeId, foremost, neighbourhood } from "./edges";
import { EdgeTable } from "./EdgeTable";
import { Legend } from "./Legend";
import { ClusterPanel, EdgePanel, NodePanel } from "./Panel";
import { Picture } from "./Picture";
import { TimeSlider } from "./TimeSlider";
import { stepsBack, STEPS_OF_A_WINDOW, windowAt } from "./windows";

/** A picture of more can neither be drawn fluently nor be read. */
const MOST_NODES = 2000;
/** How often a range that ends now moves. */
const EVERY_MILLISECONDS = 15_000;
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
  const now = useNow(EVERY_MILLISECONDS);
  const [from, to] = [absolute(start, now), absolute(end, now)];
  const back = stepsBack(params.get("back"));
  const differ = params.get("differ") === "1";
  const shown = windowAt(from, to, back);
  const earlier = windowAt(from, to, back + STEPS_OF_A_WINDOW);
  // Compared windows are as long as one another, to the second.
  const fixed = back > 0 || differ;
  const range = fixed ? { start: shown.start, end: shown.end } : { start, end };
  const graph = useGraph(range.start, range.end, live && !fixed);
  const before = useGraph(earlier.start, earlier.end, false, differ);
  const colouring = COLOURINGS.find((one) => one === params.get("colour")) ?? "errors";
  const grouping = GROUPINGS.find((one) => one === params.get("group")) ?? null;
  const namespaces = useNamespaces(
    shown.fromMilliseconds / 1000,
    shown.toMilliseconds / 1000,
    grouping === "namespace",
  );
  const difference = useMemo(
    () => (differ && graph.data && before.data ? compared(before.data, graph.data) : null),
    [differ, graph.data, before.data],
  );
  const all = difference?.graph ?? graph.data;
  const open = params.get("open") ?? "";
  const groups = useMemo(() => {
    if (!all || grouping === null) return null;
    const groupOf = (name: string) =>
      grouping === "namespace"
        ? (namespaces.data?.get(name) ?? null)
        : prefixOf(name, grouping === "word" ? 1 : 2);
    const opened = new Set(open.split(",").filter(Boolean));
    // A service that is asked for is not hidden in its group.
    const own = focus === null ? null : groupOf(focus);
    if (own !== null) opened.add(own);
    return clustered(all, groupOf, opened);
  }, [all, grouping, open, focus, namespaces.data]);
  // With groups, what is compared are the groups.
  const shownDifference = useMemo(
    () =>
      difference && groups && groups.members.size > 0 && graph.data && before.data
        ? compared(applied(before.data, groups.members), applied(graph.data, groups.members))
        : difference,
    [difference, groups, graph.data, before.data],
  );
  const names = useMemo(() => graph.data?.nodes.map((node) => node.name) ?? [], [graph.data]);
  useTitle(focus ?? undefined, "Map");
  const failure = graph.error ?? (differ ? before.error : null) ?? namespaces.error;
  return (
    <Colours names={names}>
      <main className="map-page" data-testid="map" data-nodes={names.length}>
        <h1 className="unseen">Map of services</h1>
        <div className="map-bars">
          <Tools
            start={start}
            end={end}
            live={live}
            focus={focus}
            least={least}
            graph={graph.data}
            colouring={colouring}
          />
          <div className="map-tools">
            <TimeSlider from={from} to={to} back={back} />
            <button
              type="button"
              className="button"
              aria-pressed={differ}
              data-testid="differ"
              title="Marks what is new, gone, slower or fails more than in the window before, which is as long"
              onClick={() => setParams({ differ: differ ? null : "1" }, "push")}
            >
              Against the window before
            </button>
            <select
              aria-label="Group services"
              data-testid="group"
              data-set={grouping !== null}
              value={grouping ?? ""}
              onChange={(event) =>
                setParams(
                  { group: event.target.value || null, open: null, node: null, edge: null },
                  "push",
                )
              }
            >
              <option value="">No groups</option>
              {GROUPINGS.map((one) => (
                <option key={one} value={one}>
                  {GROUPING_NAMES[one]}
                </option>
              ))}
            </select>
            <select
              aria-label="Colour calls by"
              data-testid="colour"
              data-set={colouring !== "errors"}
              value={colouring}
              disabled={differ}
              title={differ ? "The colours say what differs from the window before" : undefined}
              onChange={({ target }) =>
                setParams({ colour: target.value === "errors" ? null : target.value }, "push")
              }
            >
              {COLOURINGS.map((one) => (
                <option key={one} value={one}>
                  {COLOURING_NAMES[one]}
                </option>
              ))}
            </select>
          </div>
        </div>
        {failure ? (
          <div className="room">
            <Failure error={failure} />
          </div>
        ) : !all ? (
          <Blank title="Loading the map" busy />
        ) : all.nodes.length === 0 ? (
          <Blank title="No calls in this time">
            <p>A service appears here with its first request. See the status if none ever does.</p>
            <Link className="button" to="/status">
              Status
            </Link>
          </Blank>
        ) : (
          <Stage
            graph={shownDifference?.graph ?? groups?.graph ?? all}
            groups={groups}
            difference={shownDifference}
            compares={differ ? (before.data && graph.data ? "done" : "busy") : null}
            colouring={colouring}
            least={Number(least)}
            focus={focus}
            start={range.start}
            end={range.end}
          />
        )}
      </main>
    </Colours>
  );
}

const GROUPING_NAMES: Record<Grouping, string> = {
  word: "By the first word of names",
  words: "By the first two words",
  namespace: "By namespace",
};

function Tools(props: {
  start: string;
  end: string;
  live: boolean;
  focus: string | null;
  least: string;
  graph: Graph | undefined;
  colouring: Colouring;
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
      <Legend colouring={props.colouring} />
    </div>
  );
}

/** The picture with the table below, and the details of the selection beside both. */
function Stage(props: {
  graph: Graph;
  groups: Clustered | null;
  difference: Compared | null;
  /** Whether the map is compared with an earlier one. */
  compares: "busy" | "done" | null;
  colouring: Colouring;
  /** Calls per second that a call needs to be shown. */
  least: number;
  focus: string | null;
  start: string;
  end: string;
}) {
  const { graph, focus, least, groups, difference } = props;
  const { params, entry } = usePlace();
  const chosen = params.get("edge");
  const named = params.get("node");
  const hops = HOPS.find((one) => String(one) === params.get("hops")) ?? 1;
  const known = focus !== null && graph.nodes.some((node) => node.name === focus);
  const asked = useMemo(() => {
    // What is gone has no rate: it is shown at any.
    const busy = difference === null ? atLeast(graph, least) : graph;
    return known ? neighbourhood(busy, focus, hops) : busy;
  }, [graph, difference, least, focus, known, hops]);
  const shown = useMemo(() => foremost(asked, MOST_NODES, focus), [asked, focus]);
  const range = { start: props.start, end: props.end };
  const edge = chosen === null ? undefined : graph.edges.find((one) => edgeId(one) === chosen);
  const node = named === null ? undefined : graph.nodes.find((one) => one.name === named);
  const choose = (id: string | null) => setParams({ edge: id, node: null });
  const cluster = named === null ? undefined : groups?.members.get(named);
  const opened = (params.get("open") ?? "").split(",").filter(Boolean);
  const setOpened = (names: readonly string[]) =>
    setParams({ open: names.join(",") || null, node: null, edge: null }, "push");
  useShortcuts({ Escape: () => choose(null) });
  return (
    <div className={`map-stage${edge || node ? " detailed" : ""}`}>
      <div className="map-canvas">
        <Picture
          graph={shown}
          scope={known ? focus : ""}
          chosen={chosen}
          changes={difference?.edges ?? null}
          came={difference?.nodes ?? null}
          colouring={props.colouring}
          onNode={(name) => setParams({ node: name, edge: null })}
          onEdge={choose}
        />
        {groups !== null && (
          <p className="map-groups" data-testid="map-groups" data-closed={groups.members.size}>
            {groups.groups === 0
              ? "No two services share a group"
              : `${plural(groups.members.size, "closed group")}; choose one to open it`}
            {opened.map((one) => (
              <button
                key={one}
                type="button"
                className="button tiny"
                onClick={() => setOpened(opened.filter((other) => other !== one))}
              >
                {one} <span aria-hidden="true">×</span>
                <span className="unseen">: close</span>
              </button>
            ))}
          </p>
        )}
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
        {props.compares !== null && (
          <Differences difference={difference} isBusy={props.compares === "busy"} />
        )}
        {(graph.warnings ?? []).map((warning) => (
          <div key={warning} className="notice warn">
            {warning}
          </div>
        ))}
        <EdgeTable
          edges={shown.edges}
          chosen={chosen}
          visit={entry}
          changes={difference?.edges ?? null}
          onChoose={choose}
        />
      </div>
      {edge ? (
        <EdgePanel
          edge={edge}
          range={range}
          grouped={groups?.members.has(edge.client) || groups?.members.has(edge.server) || false}
          change={difference?.edges.get(edgeId(edge))?.text ?? null}
          onClose={() => choose(null)}
        />
      ) : cluster && node ? (
        <ClusterPanel
          node={node}
          graph={graph}
          range={range}
          services={cluster.services}
          onOpen={() => setOpened([...opened, cluster.group])}
          onClose={() => choose(null)}
        />
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

/** What the comparison found, in one line. */
function Differences(props: { difference: Compared | null; isBusy: boolean }) {
  const { difference } = props;
  const counts = difference && changeCounts(difference.edges);
  return (
    <div className="notice" role="status" data-testid="map-differences">
      {props.isBusy
        ? "Comparing with the window before…"
        : counts === null
          ? "Nothing is stored of the window before, so nothing can be said to be new."
          : CHANGES.every(([change]) => counts[change] === 0)
            ? "The same calls as in the window before; none is notably slower or fails more."
            : CHANGES.filter(([change]) => counts[change] > 0).map(([change, word]) => (
                <span key={change} className="change" data-change={change}>
                  <b>{formatCount(counts[change])}</b> {word}
                </span>
              ))}
    </div>
  );
}
