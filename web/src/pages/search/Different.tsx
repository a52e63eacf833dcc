import { MOST_COMPARED, useDifferent } from "../../api/traceql";
import { setParams } from "../../app/router";
import { apiDuration, formatDuration } from "../../model/duration";
import { readBox } from "../../model/different";
import type { Told } from "../../model/different";
import { formatShare, plural } from "../../model/number";
import type { Steps } from "../../model/series";
import { unixNano } from "../../model/time";
import { literal, narrowedBy } from "../../model/traceql";
import { Blank, Failure } from "../../parts/Blank";

const MOST_TOLD = 100;

/**
 * What tells the spans of the query from all others; or, if a box is drawn in the heat map, the
 * spans in the box from the others of the query. A row is a filter.
 */
export function Different({ query, chosen, on }: { query: string; chosen: string; on: Steps }) {
  const box = readBox(chosen);
  const wanted = box
    ? narrowedBy("{ }", duration(box))
    : narrowedBy(query, "true") === "{ true }"
      ? null
      : query;
  const asked =
    wanted &&
    (box
      ? `${query} | compare(${wanted}, ${MOST_COMPARED}, ${unixNano(box.from * 1000)}, ${unixNano(box.to * 1000)})`
      : `{ } | compare(${wanted}, ${MOST_COMPARED})`);
  const answer = useDifferent(asked, on);
  if (asked === null) {
    return (
      <Blank title="Different from what?">
        <p>Draw a box in the heat map, or add a condition to the query.</p>
      </Blank>
    );
  }
  if (answer.isError) {
    return (
      <div className="room">
        <Failure error={answer.error} />
      </div>
    );
  }
  if (!answer.data) return <Blank title="Comparing" busy />;
  const { selected, rest, told } = answer.data;
  const which = box
    ? `in the box (${formatDuration(box.least)} to ${formatDuration(box.most)})`
    : "that fit the query";
  return (
    <div className="groups" tabIndex={0} role="group" aria-label="What is different">
      <p className="label" data-testid="different-sum">
        {plural(selected, "span")} {which}, beside {plural(rest, "other")}.{" "}
        {told.length === 0 && "No attribute tells them apart by more than chance."}
      </p>
      {told.length > 0 && (
        <table className="trace-table" data-testid="different">
          <thead>
            <tr>
              <th scope="col">Attribute</th>
              <th scope="col" className="value">
                Value
              </th>
              <th scope="col">Of these</th>
              <th scope="col">Of the others</th>
            </tr>
          </thead>
          <tbody>
            {told.slice(0, MOST_TOLD).map((one) => (
              <Row
                key={`${one.name}\n${one.value}`}
                one={one}
                // What none of these has would find nothing within the query.
                within={box === null && one.count === 0 ? "{ }" : query}
              />
            ))}
          </tbody>
        </table>
      )}
      {told.length > MOST_TOLD && (
        <p className="label">{plural(told.length - MOST_TOLD, "smaller difference")} not listed.</p>
      )}
    </div>
  );
}

function Row({ one, within }: { one: Told; within: string }) {
  return (
    <tr data-name={one.name} data-value={one.value}>
      <th scope="row">{one.name}</th>
      <td className="value">
        <button
          type="button"
          className="link cut"
          title="Search for the spans that have it"
          onClick={() =>
            setParams(
              {
                q: narrowedBy(within, `${one.name} = ${literal(one.name, one.value)}`),
                differ: null,
              },
              "push",
            )
          }
        >
          {one.value}
        </button>
      </td>
      <td className="number">{formatShare(one.here)}</td>
      <td className="number">
        {one.atMost && "≤ "}
        {formatShare(one.there)}
      </td>
    </tr>
  );
}

const duration = ({ least, most }: { least: number; most: number }) =>
  `duration >= ${apiDuration(least, "down")} && duration <= ${apiDuration(most, "up")}`;
