import { useStatus } from "../../api/queries";
import type { Agent } from "../../api/types";
import { Link } from "../../app/router";
import { formatCount, plural } from "../../model/number";
import { Prose } from "../../parts/Prose";

/** Losses that are listed here. The status page has all. */
const MOST_LOSSES = 3;

function agentText(agent: Agent): string {
  switch (agent.state) {
    case "running":
      return `The agent of this machine is running${agent.filter ? `; it traces ${agent.filter}` : ""}.`;
    case "starting":
      return "The agent of this machine is starting.";
    case "off":
      return `The agent is off: ${agent.reason}`;
    case "remote":
      return agent.agents.length === 0
        ? "No agent has reported yet: only spans that applications send are seen."
        : `${plural(agent.agents.length, "agent reports", "agents report")} here.`;
  }
}

/** What agents see, and what they and the server lost. */
export function Health() {
  const { data: status } = useStatus();
  if (!status) return null;
  const bad = status.counters.filter((one) => one.level !== "info");
  return (
    <section className="card" aria-labelledby="seen-title" data-testid="seen">
      <h2 id="seen-title">
        What is seen, what is lost
        <Link className="button tiny" to="/status">
          Status
        </Link>
      </h2>
      <ul className="said">
        <li>
          <Prose text={agentText(status.agent)} />
        </li>
        {bad.slice(0, MOST_LOSSES).map((one) => (
          <li key={`${one.part} ${one.name}`}>
            <b className={one.level === "fault" ? "is-error" : "warn-text"}>
              {formatCount(Number(one.value))}
            </b>{" "}
            <Prose text={one.meaning} /> {one.action !== "" && <Prose text={one.action} />}
          </li>
        ))}
        {bad.length > MOST_LOSSES && (
          <li>
            <Link to="/status">
              {plural(bad.length - MOST_LOSSES, "more loss or fault", "more losses and faults")}
            </Link>
          </li>
        )}
        {bad.length === 0 && <li className="quiet">Nothing was lost since the start.</li>}
      </ul>
    </section>
  );
}
