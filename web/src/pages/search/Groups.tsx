import { useGroups, useTraceQlNames } from "../../api/traceql";
import { setParams } from "../../app/router";
import { formatDuration } from "../../model/duration";
import { formatRate, formatShare, plural } from "../../model/number";
import type { Steps } from "../../model/series";
import { literal, narrowedBy } from "../../model/traceql";
import { Failure } from "../../parts/Blank";
import { Combobox } from "../../parts/Combobox";

/** Chooses an attribute, and shows the spans that fit by its values. A row is a filter. */
export function Groups(props: { query: string; by: string; on: Steps }) {
  const { query, by, on } = props;
  const names = useTraceQlNames(on, true);
  const groups = useGroups(query, by, on);
  if (narrowedBy(query, "true") === null) return null;
  return (
    <>
      <div className="group-by">
        <Combobox
          label="Group by"
          testid="group"
          placeholder="Group by an attribute"
          value={by}
          choices={(names.data ?? []).map((value) => ({ value }))}
          onChoose={(group) => setParams({ group }, "push")}
        />
      </div>
      {by !== "" && (
        <div className="groups" tabIndex={0} role="group" aria-label={`Groups by ${by}`}>
          {groups.isError && <Failure error={groups.error} />}
          {groups.data && (
            <table className="trace-table" data-testid="groups">
              <thead>
                <tr>
                  <th scope="col">{by}</th>
                  <th scope="col">Spans</th>
                  <th scope="col">Errors</th>
                  <th scope="col">p95</th>
                </tr>
              </thead>
              <tbody>
                {groups.data.map((one) => (
                  <tr key={one.value}>
                    <th scope="row">
                      <button
                        type="button"
                        className="link cut"
                        onClick={() =>
                          setParams(
                            {
                              q: narrowedBy(query, `${by} = ${literal(by, one.value)}`),
                              group: null,
                            },
                            "push",
                          )
                        }
                      >
                        {one.value === "nil" || one.value === "" ? "(none)" : one.value}
                      </button>
                    </th>
                    <td className="number">{formatRate(one.perSecond)}</td>
                    <td className={`number${one.errorShare > 0 ? " is-error" : ""}`}>
                      {formatShare(one.errorShare)}
                    </td>
                    <td className="number">
                      {one.p95Seconds === null ? "–" : formatDuration(one.p95Seconds * 1e9)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          {groups.data && <p className="label">{plural(groups.data.length, "value")}</p>}
        </div>
      )}
    </>
  );
}
