import type { ReactNode } from "react";
import type { Span } from "../../api/types";
import { formatDuration, formatOffset, nano } from "../../model/duration";
import { captureWords, explain } from "../../model/evidence";
import type { Explanation } from "../../model/evidence";
import { formatBytes, formatCount, formatShare, plural } from "../../model/number";
import { formatTime, milliseconds } from "../../model/time";
import { otherSide } from "../../model/tree";
import type { Tree } from "../../model/tree";
import { Copy } from "../../parts/Copy";
import { Service, serviceStyle } from "../../parts/Service";
import { Link } from "../../app/router";
import { AttributeTable, Pairs, resourceOf } from "./Attributes";
import { select } from "./state";

/** Children listed in the details; the tree has all. */
const MOST_CHILDREN = 12;

/** Everything that is known about a span. */
export function Details(props: { tree: Tree; span: Span; onSelect: (id: string) => void }) {
  const { tree, span } = props;
  const parent = span.parent === null ? null : (tree.spans.get(span.parent) ?? null);
  const [, seen] = captureWords(span.capture);
  const resource = resourceOf(span.resource);
  return (
    <aside
      className="details"
      aria-label={`Span ${span.operation}`}
      data-testid="details"
      data-span-id={span.span_id}
      style={serviceStyle(span.service)}
    >
      <header className="details-head">
        <div className="line">
          <h2 title={span.operation}>{span.operation}</h2>
          <button
            type="button"
            className="button plain icon"
            aria-label="Close details"
            title="Close (Esc)"
            onClick={() => select(null)}
          >
            ×
          </button>
        </div>
        <div className="line quiet">
          <Service name={span.service} />·<span className="cut">{span.kind}</span>
          {span.protocol && <>· {span.protocol}</>}
        </div>
      </header>
      {span.status === "error" && (
        <section>
          <div className="notice error" data-testid="span-error">
            <div style={{ overflowWrap: "anywhere" }}>
              <b>{span.error ?? "Failed"}</b>
              {span.status_code !== undefined &&
                !span.error?.includes(String(span.status_code)) && (
                  <div>Status code {span.status_code}</div>
                )}
            </div>
          </div>
        </section>
      )}
      <section>
        <div className="numbers">
          <Figure name="Duration">{formatDuration(nano(span.duration_nano))}</Figure>
          <Figure name="Own time">
            {formatDuration(nano(span.self_nano))}{" "}
            <span className="label">
              {formatShare(nano(span.self_nano) / Math.max(1, nano(span.duration_nano)))}
            </span>
          </Figure>
          <Figure name="Starts at">{formatOffset(tree.start.get(span.span_id)!)}</Figure>
          {span.status_code !== undefined && <Figure name="Status code">{span.status_code}</Figure>}
        </div>
      </section>
      <section>
        <h3>Why it is here</h3>
        <Evidence said={explain(span, parent)} />
        <p className="quiet" style={{ marginTop: 6 }}>
          Seen {seen}.
        </p>
        {parent && <Relative span={parent} mark="↑" onSelect={props.onSelect} />}
        {span.children.slice(0, MOST_CHILDREN).map((id) => {
          const child = tree.spans.get(id);
          return child && <Relative key={id} span={child} mark="↓" onSelect={props.onSelect} />;
        })}
        {span.children.length > MOST_CHILDREN && (
          <span className="label">
            and {plural(span.children.length - MOST_CHILDREN, "more child", "more children")}
          </span>
        )}
      </section>
      <Network tree={tree} span={span} parent={parent} />
      {(span.attributes?.length ?? 0) > 0 && (
        <section data-testid="attributes">
          <h3>
            Attributes
            <Copy
              text={JSON.stringify(
                Object.fromEntries(span.attributes!.map((one) => [one.key, one.value])),
                null,
                1,
              )}
              label="All"
            />
          </h3>
          <AttributeTable attributes={span.attributes!} />
        </section>
      )}
      <Events tree={tree} span={span} />
      {(span.links?.length ?? 0) > 0 && (
        <section>
          <h3>Links</h3>
          {span.links!.map((link, at) => (
            <div key={at} className="event">
              <Link
                to={`/trace/${link.trace_id}?span=${link.span_id}`}
                className="mono cut"
                style={{ display: "block" }}
              >
                {link.trace_id} / {link.span_id}
              </Link>
              <AttributeTable attributes={link.attributes ?? []} />
            </div>
          ))}
        </section>
      )}
      {resource.length > 0 && (
        <section>
          <h3>Resource</h3>
          <Pairs pairs={resource} />
        </section>
      )}
      <section>
        <h3>Keys</h3>
        <Pairs
          pairs={[
            ["Span id", span.span_id],
            ["Assembled trace id", span.assembled_trace_id ?? tree.trace.trace_id],
            ["Trace id in header", span.trace_id],
            ["Parent id in header", span.parent_span_id],
            ["Trace state", span.trace_state],
            ["Fragment", span.fragment_id],
            ["X-Request-ID", span.x_request_id],
            ["Logical key", span.logical_key],
            ["Instance", span.instance],
            ["Start", `${formatTime(milliseconds(span.start_unix_nano), 0)}`],
            ["Start, Unix ns", span.start_unix_nano],
          ]}
        />
      </section>
    </aside>
  );
}

function Figure({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <span className="label">{name}</span>
      <b>{children}</b>
    </div>
  );
}

function Evidence({ said }: { said: Explanation }) {
  return (
    <div className="evidence" data-testid="evidence" data-certainty={said.certainty}>
      {said.sentence.map((piece, at) =>
        piece.code ? <code key={at}>{piece.text}</code> : <span key={at}>{piece.text}</span>,
      )}
      {said.note && <div className="quiet">{said.note}</div>}
    </div>
  );
}

function Relative(props: { span: Span; mark: string; onSelect: (id: string) => void }) {
  const { span } = props;
  return (
    <button
      type="button"
      className="relative"
      onClick={() => props.onSelect(span.span_id)}
      title={`${span.service} ${span.operation}`}
    >
      <span className="quiet">{props.mark}</span>
      <Service name={span.service} />
      <span className={`cut${span.status === "error" ? " is-error" : ""}`}>{span.operation}</span>
      <span className="number">{formatDuration(nano(span.duration_nano))}</span>
    </button>
  );
}

/** What the kernel saw of the connection. */
function Network(props: { tree: Tree; span: Span; parent: Span | null }) {
  const { tree, span, parent } = props;
  const client = span.capture === "client-process" ? span : parent;
  const server = client && otherSide(tree, client);
  const hop =
    client && server && (client === span || server === span)
      ? nano(client.duration_nano) - nano(server.duration_nano)
      : null;
  const figures: [string, ReactNode][] = [];
  if (hop !== null && hop >= 0) figures.push(["Hop overhead", formatDuration(hop)]);
  if (span.connect_nano !== undefined) {
    figures.push(["Connect", formatDuration(nano(span.connect_nano))]);
  }
  if (span.rtt_nano !== undefined)
    figures.push(["Round trip", formatDuration(nano(span.rtt_nano))]);
  if (span.request_bytes !== undefined) {
    figures.push(["Request", formatBytes(Number(span.request_bytes))]);
  }
  if (span.response_bytes !== undefined) {
    figures.push(["Response", formatBytes(Number(span.response_bytes))]);
  }
  for (const [name, count] of [
    ["Retransmits", span.retransmits],
    ["Zero windows", span.zero_windows],
    ["Resets", span.resets],
  ] as const) {
    if (count === undefined) continue;
    figures.push([
      name,
      <span className={count > 0 ? "warn-text" : ""}>{formatCount(count)}</span>,
    ]);
  }
  const addressed = span.client_address !== undefined || span.server_address !== undefined;
  if (figures.length === 0 && !addressed && span.request_tcp_seq === undefined) return null;
  return (
    <section data-testid="network">
      <h3>Network</h3>
      {addressed && (
        <div className="flow">
          <span className="cut">{endpoint(span.client_address, span.client_port)}</span>
          <svg width="24" height="8" viewBox="0 0 24 8" aria-label="to">
            <path d="M0 4h22M18.5 1 22 4l-3.5 3" fill="none" stroke="currentColor" />
          </svg>
          <span className="cut">{endpoint(span.server_address, span.server_port)}</span>
        </div>
      )}
      <div className="numbers">
        {figures.map(([name, value]) => (
          <Figure key={name} name={name}>
            {value}
          </Figure>
        ))}
      </div>
      <div style={{ marginTop: 8 }}>
        <Pairs
          pairs={[
            ["Request TCP sequence", span.request_tcp_seq],
            ["Response TCP sequence", span.response_tcp_seq],
            ["Network namespace", span.network_namespace],
          ]}
        />
      </div>
    </section>
  );
}

function endpoint(address: string | undefined, port: number | undefined): string {
  const host = address?.includes(":") ? `[${address}]` : (address ?? "?");
  return port === undefined ? host : `${host}:${port}`;
}

function Events({ tree, span }: { tree: Tree; span: Span }) {
  if (!span.events?.length) return null;
  const start = BigInt(tree.trace.start_unix_nano);
  return (
    <section data-testid="events">
      <h3>Events</h3>
      {span.events.map((event, at) => (
        <div key={at} className="event">
          <div className="event-name">
            <span className={event.name === "exception" ? "is-error" : ""}>{event.name}</span>
            <span className="number">
              +{formatDuration(Number(BigInt(event.time_unix_nano) - start))}
            </span>
          </div>
          <AttributeTable attributes={event.attributes ?? []} />
        </div>
      ))}
    </section>
  );
}
