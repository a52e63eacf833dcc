import { useServices, useStatus } from "../../api/queries";
import { Link, setParams } from "../../app/router";
import { Blank } from "../../parts/Blank";
import { Prose } from "../../parts/Prose";
import { narrowed, WIDE } from "./question";
import type { Asked } from "./question";

/** The server's configured ports for OTLP. */
function OtlpPorts({ server }: { server: Record<string, unknown> | undefined }) {
  const port = (address: unknown, usual: string) =>
    typeof address === "string" ? address.slice(address.lastIndexOf(":") + 1) : usual;
  return (
    <>
      port <code>{port(server?.otlp_grpc, "4317")}</code> (gRPC) or{" "}
      <code>{port(server?.otlp_http, "4318")}</code> (HTTP)
    </>
  );
}

/** Explains why a search found nothing, and what to do. */
export function Empty({ asked, said }: { asked: Asked; said: readonly string[] }) {
  const services = useServices();
  const status = useStatus();
  if (services.data && services.data.services.length === 0) {
    const agent = status.data?.agent;
    if (agent?.state === "running" || agent?.state === "starting") {
      return (
        <Blank title="Listening: no request seen yet">
          <p>
            The agent watches this machine. Send a request to any service on it (HTTP/1.1,
            PostgreSQL or Redis) and it appears here within three seconds. No change to the service
            is needed.
          </p>
          <button className="button" onClick={() => setParams({ live: "1" })}>
            Watch live
          </button>
        </Blank>
      );
    }
    return (
      <Blank title="No service seen yet">
        {agent?.state === "off" ? (
          <>
            <p>
              The agent is off, so nothing is seen without code:{" "}
              <Prose text={agent.reason ?? "no reason given"} />
            </p>
            <p>
              Run <code>spanwise doctor</code> to see what this kernel allows, or send OTLP spans to{" "}
              <OtlpPorts server={status.data?.server} />.
            </p>
          </>
        ) : (
          <p>
            This server has no agent of its own. Start one on each machine with{" "}
            <code>spanwise agent</code>, or send OTLP spans to{" "}
            <OtlpPorts server={status.data?.server} />.
          </p>
        )}
        <Link to="/status">See the status</Link>
      </Blank>
    );
  }
  if (narrowed(asked)) {
    return (
      <Blank title="No trace fits">
        <p>
          One span of a trace must fulfil the service, operation, duration, status and attributes
          together.
        </p>
        <Advice sentences={said} />
        <button className="button" onClick={() => setParams({ ...WIDE }, "push")}>
          Clear the filters
        </button>
      </Blank>
    );
  }
  return (
    <Blank title="Nothing in this time">
      <p>Services are known, but none of their spans lies in this range.</p>
      <Advice sentences={said} />
      <button className="button" onClick={() => setParams({ start: "-24h", end: null }, "push")}>
        Look at the last 24 hours
      </button>
    </Blank>
  );
}

/** The server's advice. */
function Advice({ sentences }: { sentences: readonly string[] }) {
  return sentences.map((sentence) => (
    <p key={sentence}>
      <Prose text={sentence.charAt(0).toUpperCase() + sentence.slice(1)} />.
    </p>
  ));
}
