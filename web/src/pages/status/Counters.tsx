import type { Counter } from "../../api/types";
import { formatCount, plainName, plural } from "../../model/number";
import { Prose } from "../../parts/Prose";

const LEVELS = { fault: "broken", loss: "lost", info: "" } as const;

/** Counters: losses and faults in full, the others folded. */
export function Counters({ counters }: { counters: readonly Counter[] }) {
  const grave = counters
    .filter((one) => one.level !== "info")
    .sort((a, b) => a.level.localeCompare(b.level) || Number(b.value) - Number(a.value));
  const calm = counters.filter((one) => one.level === "info");
  return (
    <>
      {grave.length > 0 && (
        <section className="card" aria-label="Lost or broken" data-testid="losses">
          <h2>
            Lost or broken since the start
            <span className="badge warn">{plural(grave.length, "kind")}</span>
          </h2>
          <List counters={grave} />
        </section>
      )}
      {calm.length > 0 && (
        <details className="card" data-testid="counters">
          <summary>{plural(calm.length, "other counter")}</summary>
          <List counters={calm} />
        </details>
      )}
    </>
  );
}

function List({ counters }: { counters: readonly Counter[] }) {
  return (
    <ul className="counters">
      {counters.map((one) => (
        <li key={`${one.part} ${one.name}`} data-level={one.level} data-key={one.name}>
          <span className="count">
            <b>{formatCount(Number(one.value))}</b>
            {LEVELS[one.level] && <span className="badge warn">{LEVELS[one.level]}</span>}
          </span>
          <span>
            <b title={one.name}>{plainName(one.name)}</b> <span className="label">{one.part}</span>
            <span className="meaning">
              <Prose text={one.meaning} />
            </span>
            {one.action !== "" && (
              <span className="action">
                <span className="quiet">What to do: </span>
                <Prose text={one.action} />
              </span>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}
