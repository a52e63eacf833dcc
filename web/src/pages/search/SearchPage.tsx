import { useSearch } from "../../api/queries";
import { usePlace } from "../../app/router";
import { useTitle } from "../../app/title";
import { milliseconds } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { absolute } from "../../parts/TimeRange";
import { BuilderHeat } from "./Heat";
import { Empty } from "./Empty";
import { Filters } from "./Filters";
import { asked as read, question } from "./question";
import { QuerySearch } from "./QuerySearch";
import { Results } from "./Results";
import { Scatter } from "./Scatter";

const LEAST_DRAWN_MILLISECONDS = 10_000;

export function SearchPage() {
  const { params } = usePlace();
  return params.has("q") ? <QuerySearch /> : <BuilderSearch />;
}

function BuilderSearch() {
  const { params, entry } = usePlace();
  const asked = read(params);
  const search = useSearch(question(asked), asked.live);
  useTitle([asked.service, asked.operation].filter(Boolean).join(" "), "Search");
  const answer = search.data;
  const from = answer ? milliseconds(answer.searched.start_unix_nano) : absolute(asked.start);
  const to = answer ? milliseconds(answer.searched.end_unix_nano) : absolute(asked.end);
  const oldest = (answer?.traces ?? []).reduce<number | null>((least, trace) => {
    const start = milliseconds(trace.start_unix_nano);
    return least === null ? start : Math.min(least, start);
  }, null);
  return (
    <main className="search" data-loading={search.isFetching}>
      <h1 className="unseen">Search traces</h1>
      <Filters asked={asked} onAgain={() => void search.refetch()} />
      {params.get("chart") === "heat" ? (
        <BuilderHeat />
      ) : (
        <Scatter
          traces={answer?.traces ?? []}
          from={drawnFrom(from, to, oldest ?? from, answer?.older_end_unix_nano) / 1000}
          to={to / 1000}
          zoomed={/^\d+$/.test(asked.start) || asked.min !== "" || asked.max !== ""}
        />
      )}
      {search.isError ? (
        <div className="room">
          <Failure error={search.error} />
        </div>
      ) : !answer ? (
        <Blank title="Searching" busy />
      ) : answer.traces.length === 0 && answer.older_end_unix_nano === null ? (
        <div className="page">
          <Empty asked={asked} said={[...answer.warnings, ...answer.advice]} />
        </div>
      ) : (
        <Results answer={answer} visit={entry} ready={!search.isPlaceholderData} />
      )}
    </main>
  );
}

/**
 * The start of the chart. It is later than the start of the search if not all traces are listed,
 * or if most of the range is empty.
 */
function drawnFrom(from: number, to: number, oldest: number, olderEnd?: string | null): number {
  if (!olderEnd && oldest - from < (to - from) / 2) return from;
  const covered = Math.max(to - oldest, LEAST_DRAWN_MILLISECONDS);
  return Math.max(from, to - covered * 1.03);
}
