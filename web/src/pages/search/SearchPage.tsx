import { useSearch } from "../../api/queries";
import { introduce } from "../../app/palette";
import { usePlace } from "../../app/router";
import { milliseconds } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { absolute } from "../../parts/TimeRange";
import { Empty } from "./Empty";
import { Filters } from "./Filters";
import { asked as read, question } from "./question";
import { Results } from "./Results";
import { Scatter } from "./Scatter";

export function SearchPage() {
  const { params } = usePlace();
  const asked = read(params);
  const search = useSearch(question(asked), asked.live);
  const answer = search.data;
  if (answer) introduce(answer.traces.flatMap((trace) => trace.services.map(({ name }) => name)));
  // Where there are more than listed, the picture shows the time that the list covers.
  const oldest = answer?.more ? answer.traces.at(-1)?.start_unix_nano : undefined;
  const first = oldest ?? answer?.searched.start_unix_nano;
  const from = first ? milliseconds(first) : absolute(asked.start);
  const to = answer ? milliseconds(answer.searched.end_unix_nano) : absolute(asked.end);
  return (
    <main className="search" data-loading={search.isFetching}>
      <Filters asked={asked} />
      <Scatter
        traces={answer?.traces ?? []}
        from={from / 1000}
        to={to / 1000}
        zoomed={/^\d+$/.test(asked.start) || asked.min !== "" || asked.max !== ""}
      />
      {search.isError ? (
        <div style={{ padding: 16 }}>
          <Failure error={search.error} />
        </div>
      ) : !answer ? (
        <Blank title="Searching" busy />
      ) : answer.traces.length === 0 ? (
        <div className="page">
          <Empty asked={asked} />
        </div>
      ) : (
        <Results traces={answer.traces} sort={asked.sort} more={answer.more} />
      )}
    </main>
  );
}
