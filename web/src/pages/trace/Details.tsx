import type { ReactNode } from "react";
import type { Span } from "../../api/types";
import { formatDuration, formatOffset, nano } from "../../model/duration";
import { captureWords, explain } from "../../model/evidence";
import type { Explanation } from "../../model/evidence";
import { hopAt, inWords } from "../../model/hops";
import { formatBytes, formatCount, formatShare, plural } from "../../model/number";
import { isNameUnknown, outcome } from "../../model/outcome";
import { formatMoment, milliseconds } from "../../model/time";
import { otherSide } from "../../model/tree";
import type { Tree } from "../../model/tree";
import { Copy } from "../../parts/Copy";
import { Service } from "../../parts/Service";
import { useServiceStyle } from "../../app/palette";
import { useZone } from "../../app/zone";
import { Link } from "../../app/router";
import { AttributeTable, Pairs, resourceOf } from "./Attributes";
import { select } from "./state";

/** Children that are listed in the details. The tree shows all. */
const MOST_CHILDREN = 12;

/** All fields of a span. */
export function Details(props: { tree: Tree; span: Span; onSelect: (id: string) => void }) {
  const { tree, span } = props;
  const serviceStyle = useServiceStyle();
  const zone = useZone();
  const parent = span.parent === null ? null : (tree.spans.get(span.parent) ?? null);
  const ended = outcome(span);
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
      {ended.failed && (
        <section>
          <div className="notice error" data-testid="span-error">
            <div className="anywhere">
              <b>{ended.text}</b>
              {span.status !== "error" && (
                <div className="quiet">
                  Its sender does not call this an error; this side gave the answer.
                </div>
              )}
            </div>
          </div>
        </section>
      )}
      {ended.unknown && (
        <section>
          <div className="notice" data-testid="span-unknown">
            Status unknown: it was not seen how this call ended.
          </div>
        </section>
      )}
      {isNameUnknown(span) && (
        <section>
          <div className="notice" data-testid="span-unnamed">
            Name unknown: it was said before the agent saw this connection, or in bytes that it did
            not see. Restart the service to see names.
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
          {ended.code !== null && (
            <Figure name="Status code">
              <span className={ended.failed ? "is-error" : ""}>{ended.code}</span>
            </Figure>
          )}
        </div>
      </section>
      <section>
        <h3>Why it is here</h3>
        <Evidence said={explain(span, parent)} />
        <p className="quiet seen">Seen {seen}.</p>
        {span.parent !== null && (
          <Relative id={span.parent} tree={tree} mark="↑" onSelect={props.onSelect} />
        )}
        {span.children.slice(0, MOST_CHILDREN).map((id) => (
          <Relative key={id} id={id} tree={tree} mark="↓" onSelect={props.onSelect} />
        ))}
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
              <Link to={`/trace/${link.trace_id}?span=${link.span_id}`} className="mono cut block">
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
            ["Start", formatMoment(milliseconds(span.start_unix_nano), zone)],
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

/** A link to the parent or a child. A span that is not loaded is fetched on click. */
function Relative(props: { id: string; tree: Tree; mark: string; onSelect: (id: string) => void }) {
  const span = props.tree.spans.get(props.id);
  return (
    <button
      type="button"
      className="relative"
      onClick={() => props.onSelect(props.id)}
      title={span ? `${span.service} ${span.operation}` : "Not loaded yet: click fetches it"}
    >
      <span className="quiet">{props.mark}</span>
      {span ? (
        <>
          <Service name={span.service} />
          <span className={`cut${outcome(span).failed ? " is-error" : ""}`}>{span.operation}</span>
          <span className="number">{formatDuration(nano(span.duration_nano))}</span>
        </>
      ) : (
        <code className="quiet">{props.id}</code>
      )}
    </button>
  );
}

/** TCP measurements of the connection from the kernel. */
function Network(props: { tree: Tree; span: Span; parent: Span | null }) {
  const { tree, span, parent } = props;
  const client = span.capture === "client-process" ? span : parent;
  const server = client && otherSide(tree, client);
  const hop =
    client && server && (client === span || server === span)
      ? nano(client.duration_nano) - nano(server.duration_nano)
      : null;
  const whole = client && (client === span || server === span) ? hopAt(tree, client) : null;
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
      {whole && <p className="hop-words">{inWords(whole)}</p>}
      <div className="numbers">
        {figures.map(([name, value]) => (
          <Figure key={name} name={name}>
            {value}
          </Figure>
        ))}
      </div>
      <div className="below">
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
