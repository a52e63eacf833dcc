import { ApiError } from "../../api/client";
import { useTraceQl } from "../../api/traceql";
import { setParams, usePlace } from "../../app/router";
import { useTitle } from "../../app/title";
import { boxText } from "../../model/different";
import { apiDuration } from "../../model/duration";
import { DEFAULT_START, unixNano } from "../../model/time";
import { faultIn, narrowedBy } from "../../model/traceql";
import { Blank, Failure } from "../../parts/Blank";
import { TimeRange } from "../../parts/TimeRange";
import { usePageRange } from "../../parts/range";
import { DEFAULT_LIMIT } from "./question";
import { Different } from "./Different";
import { Groups } from "./Groups";
import { Heat } from "./Heat";
import { QueryBox } from "../../parts/QueryBox";
import { Results } from "./Results";

/** The search in TraceQL: the query, durations over time, and the traces or groups. */
export function QuerySearch() {
  const { params, entry } = usePlace();
  const range = usePageRange();
  const query = params.get("q") ?? "";
  const group = params.get("group") ?? "";
  // What to compare with the rest: a box of the heat map, or else what fits the query.
  const differ = params.get("differ");
  const limit = Number(params.get("limit") ?? DEFAULT_LIMIT);
  const asked = query.trim() === "" ? "{ }" : query;
  const search = useTraceQl(asked, range.on, range.endSeconds, limit);
  useTitle("TraceQL", "Search");
  const fault =
    search.error instanceof ApiError && search.error.status === 400
      ? faultIn(search.error.message)
      : null;
  return (
    <main className="search query" data-loading={search.isFetching}>
      <h1 className="unseen">Search traces with TraceQL</h1>
      <div className="query-tools">
        <QueryBox
          key={query}
          query={query}
          on={range.on}
          fault={fault}
          onAsk={(q) => {
            if (q === query) void search.refetch();
            else setParams({ q: q === "" ? "{ }" : q }, "push");
          }}
        />
        <button
          type="button"
          className="button"
          data-testid="builder"
          title="Back to the fields; they are as they were"
          onClick={() => setParams({ q: null, group: null, differ: null }, "push")}
        >
          Builder
        </button>
        <button
          type="button"
          className="button"
          data-testid="differ"
          aria-pressed={differ !== null}
          title="Attributes that tell these spans from the rest; a box in the heat map says which"
          onClick={() =>
            setParams({ differ: differ === null ? "query" : null, group: null }, "push")
          }
        >
          What is different
        </button>
        <TimeRange
          start={range.start}
          end={range.end}
          set={range.start !== DEFAULT_START || range.end !== "now"}
          onChange={(start, end) =>
            setParams(
              { start: start === DEFAULT_START ? null : start, end: end === "now" ? null : end },
              "push",
            )
          }
        />
      </div>
      {!search.isError && narrowedBy(asked, "true") !== null && (
        <Heat
          query={asked}
          use={differ !== null ? "compare it with the rest" : "search in it"}
          onSelect={(box) =>
            setParams(
              differ !== null
                ? { differ: boxText(box) }
                : {
                    start: unixNano(box.from * 1000),
                    end: unixNano(box.to * 1000),
                    q: narrowedBy(
                      asked,
                      `duration >= ${apiDuration(box.least, "down")} && duration <= ${apiDuration(box.most, "up")}`,
                    ),
                  },
              "push",
            )
          }
        />
      )}
      {search.isError ? (
        fault === null && (
          <div className="room">
            <Failure error={search.error} />
          </div>
        )
      ) : differ !== null && narrowedBy(asked, "true") !== null ? (
        <Different query={asked} chosen={differ} on={range.on} />
      ) : (
        <>
          <Groups query={asked} by={group} on={range.on} />
          {group === "" &&
            (!search.data ? (
              <Blank title="Searching" busy />
            ) : search.data.traces.length === 0 ? (
              <Blank title="No trace fits">
                <p>
                  No span of this time fulfils the query. Try a longer time, or fewer conditions.
                </p>
              </Blank>
            ) : (
              <Results
                answer={search.data}
                visit={entry}
                ready={!search.isPlaceholderData}
                fixedOrder
              />
            ))}
        </>
      )}
    </main>
  );
}
