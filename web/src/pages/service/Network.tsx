import { useNetwork } from "../../api/queries";
import { Link } from "../../app/router";
import { formatDuration, nano } from "../../model/duration";
import { measuredText, peers, resentShare, seenText, UNSEEN } from "../../model/network";
import type { Peer } from "../../model/network";
import { formatCount, formatShare, plural } from "../../model/number";
import { peak } from "../../model/series";
import { quoted } from "../../model/traceql";
import { Failure } from "../../parts/Blank";
import { Service } from "../../parts/Service";
import { Spark } from "../../parts/Spark";
import { withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

const MOST_PEERS = 20;
/** The top of charts where less was sent again: a lost segment in a thousand is no mountain. */
const LEAST_TOP = 0.02;

/** What the kernel saw of the connections of a service, by the service at their other end. */
export function Network({ service, range }: { service: string; range: PageRange }) {
  const { data, error } = useNetwork(service, range.on);
  if (error) return <Failure error={error} />;
  if (!data || data.edges.length === 0) return null;
  const all = peers(data.edges, service);
  const unseen = all.every((peer) => peer.seen === null);
  const q = `{ resource.service.name = ${quoted(service)} && span.spanwise.retransmits > 0 }`;
  return (
    <section className="card" aria-labelledby="network-title" data-testid="network">
      <h2 id="network-title">
        Network
        {!unseen && (
          <Link className="button tiny" to={withRange("/search", range, { q })}>
            Traces where it sent again
          </Link>
        )}
      </h2>
      {unseen ? (
        <p>
          {`Its calls were ${UNSEEN}: no agent runs where they are made or answered, and SDKs do
            not know what becomes of packets.`}
        </p>
      ) : (
        <>
          <p className="quiet">
            What is lost on the way is sent again, often after 200 ms: the call is slow, and the
            called service knows nothing of it.
          </p>
          <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of connections">
            <table className="red-table network">
              <thead>
                <tr>
                  <th scope="col">With</th>
                  <th scope="col" title="Calls whose connections the kernel saw">
                    Calls seen
                  </th>
                  <th scope="col" title="Calls of which either side sent a segment again">
                    Calls with retransmits
                  </th>
                  <th scope="col" title="Segments that either side sent again">
                    Retransmits
                  </th>
                  <th scope="col" title="p95 of the time to open a connection">
                    Connect
                  </th>
                  <th scope="col" title="Median of the connections' round trips">
                    Round trip
                  </th>
                  <th scope="col" className="words">
                    Slowest of them
                  </th>
                </tr>
              </thead>
              <tbody>
                {all.slice(0, MOST_PEERS).map((peer) => (
                  <Row
                    key={`${peer.other} ${peer.calls} ${peer.protocol}`}
                    peer={peer}
                    range={range}
                  />
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      {all.length > MOST_PEERS && !unseen && (
        <p className="folded quiet">{plural(all.length - MOST_PEERS, "more peer")}.</p>
      )}
    </section>
  );
}

function Row({ peer, range }: { peer: Peer; range: PageRange }) {
  const { other, seen } = peer;
  const share = resentShare(seen);
  const text = share === null ? UNSEEN : formatShare(share);
  return (
    <tr data-other={other} data-calls={peer.calls} data-resent={seen?.resent_calls}>
      <th scope="row">
        <span className="quiet" title={peer.calls ? "It is called by" : "It calls"}>
          <span aria-hidden="true">{peer.calls ? "← " : "→ "}</span>
          <span className="unseen">{peer.calls ? "called by " : "calls "}</span>
        </span>
        <Link to={withRange(`/service/${encodeURIComponent(other)}`, range)}>
          <Service name={other} />
        </Link>
        <span className="label"> {peer.protocol}</span>
      </th>
      {seen === null || share === null ? (
        <td className="quiet" colSpan={6}>
          {UNSEEN}
        </td>
      ) : (
        <>
          <td className="number">{seenText(peer)}</td>
          <td className={`number${share > 0 ? " is-error" : ""}`}>
            <Spark
              values={peer.over}
              tone="error"
              top={peak(peer.over, LEAST_TOP)}
              text={`Calls with retransmits over time: ${text}`}
            />
            <span>{text}</span>
          </td>
          <td className="number">{formatCount(seen.retransmits)}</td>
          <td
            className="number"
            title={plural(seen.connects, "connection was", "connections were") + " opened"}
          >
            {measuredText(seen.connect_p95_nano)}
          </td>
          <td className="number">{measuredText(seen.rtt_p50_nano)}</td>
          <td className="resent-calls">
            {peer.examples.length === 0 && <span className="quiet">–</span>}
            {peer.examples.slice(0, 3).map((call) => (
              <Link
                key={call.span_id}
                to={`/trace/${call.span_id}?span=${call.span_id}`}
                title={`Its trace; ${plural(call.retransmits, "segment was", "segments were")} sent again`}
              >
                {formatDuration(nano(call.duration_nano))}
              </Link>
            ))}
          </td>
        </>
      )}
    </tr>
  );
}
