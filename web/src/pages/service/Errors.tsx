import { Link } from "../../app/router";
import type { ErrorGroup } from "../../model/changes";
import { formatCount } from "../../model/number";
import { quoted } from "../../model/traceql";
import { withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

const MOST_GROUPS = 30;

/** The query for a group: by its text if that is the same each time, else by one of its texts. */
function query(service: string, group: ErrorGroup): string {
  const only = `resource.service.name = ${quoted(service)} && status = error`;
  if (group.text === group.example) {
    return `{ ${only} && statusMessage = ${quoted(group.text)} }`;
  }
  const parts = group.text.split(/[#…]/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return `{ ${only} && statusMessage =~ ${quoted(parts.join(".*"))} }`;
}

/** Errors by their text, without the numbers and ids that differ each time. */
export function Errors(props: {
  service: string;
  groups: readonly ErrorGroup[];
  range: PageRange;
}) {
  const { groups } = props;
  return (
    <section className="card" aria-labelledby="errors-title" data-testid="errors">
      <h2 id="errors-title">Errors by message</h2>
      {groups.length === 0 ? (
        <p className="quiet">None of its spans failed in this time.</p>
      ) : (
        <ul className="said">
          {groups.slice(0, MOST_GROUPS).map((group) => (
            <li key={group.text}>
              <b className="is-error">{formatCount(group.count)}</b>{" "}
              <Link
                className="anywhere"
                title={group.example}
                to={withRange("/search", props.range, { q: query(props.service, group) })}
              >
                {group.text === "" ? "(no text)" : group.text}
              </Link>
            </li>
          ))}
          {groups.length > MOST_GROUPS && (
            <li className="quiet">and {formatCount(groups.length - MOST_GROUPS)} rarer ones</li>
          )}
        </ul>
      )}
    </section>
  );
}
