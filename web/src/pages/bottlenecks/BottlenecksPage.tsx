import type { ReactNode } from "react";
import { useBottlenecks } from "../../api/queries";
import type { Bottlenecks, OperationName } from "../../api/types";
import { Link, setParams, usePlace } from "../../app/router";
import { below, entrancesOf, leftOut } from "../../model/bottlenecks";
import { formatDuration, nano } from "../../model/duration";
import { formatCount, formatShare, plural } from "../../model/number";
import { AnalysisPage } from "../../parts/AnalysisPage";
import { OperationLink, operationKey, sameOperation } from "../../parts/OperationLink";
import { Share } from "../../parts/Share";
import { usePageRange, withRange } from "../../parts/range";
import type { PageRange } from "../../parts/range";

/** Rows of the first list, unless one entrance is chosen. */
const MOST_SHARES = 40;

/** Where the runs of an entrance spend their time, and what they do too often. */
export default function BottlenecksPage({ when }: { when: string }) {
  const { params } = usePlace();
  const range = usePageRange();
  const service = params.get("entrance") ?? "";
  const operation = params.get("operation");
  const answer = useBottlenecks(range, service);
  const entrances = answer.data ? entrancesOf(answer.data) : [];
  const chosen = operation === null ? null : { service, operation };
  const listed =
    chosen && !entrances.some((one) => sameOperation(one, chosen))
      ? [chosen, ...entrances]
      : entrances;
  return (
    <AnalysisPage
      title="Bottlenecks"
      when={when}
      testid="bottlenecks"
      range={range}
      answer={answer}
      tools={
        <>
          <select
            aria-label="Entrance"
            data-testid="entrance"
            data-set={chosen !== null}
            value={chosen ? operationKey(chosen) : ""}
            onChange={(event) => {
              const one = listed.find((name) => operationKey(name) === event.target.value);
              setParams(
                { entrance: one?.service ?? null, operation: one?.operation ?? null },
                "push",
              );
            }}
          >
            <option value="">{service === "" ? "All entrances" : `All of ${service}`}</option>
            {listed.map((one) => (
              <option key={operationKey(one)} value={operationKey(one)}>
                {one.service} {one.operation}
              </option>
            ))}
          </select>
          {service !== "" && (
            <button
              type="button"
              className="button"
              onClick={() => setParams({ entrance: null, operation: null }, "push")}
            >
              All entrances
            </button>
          )}
        </>
      }
    >
      {(all) => <Found found={below(all, chosen)} chosen={chosen} range={range} />}
    </AnalysisPage>
  );
}

function Found(props: { found: Bottlenecks; chosen: OperationName | null; range: PageRange }) {
  const { found, chosen, range } = props;
  const shares = chosen ? found.shares : found.shares.slice(0, MOST_SHARES);
  const entrance = (one: { entrance: OperationName }) =>
    chosen === null && <Entrance of={one.entrance} range={range} />;
  return (
    <>
      <List
        title="Where the time goes"
        testid="shares"
        note={
          chosen
            ? leftOut(shares) > 0.005
              ? `${formatShare(leftOut(shares))} is in calls that are not listed.`
              : null
            : "Each share is of the time of the runs of one entrance. Shares of different entrances do not add up."
        }
        none="No run in this time."
        heads={["Operation", "Called by", "Own time waited for", "Own time of a call", "Calls"]}
        rows={shares.map((one) => ({
          key: [one.entrance, one.caller ?? one.called, one.called].map(operationKey).join("\n"),
          data: { share: one.critical_share, service: one.called.service },
          cells: [
            <>
              <OperationLink of={one.called} range={range} />
              {entrance(one)}
            </>,
            one.caller ? (
              <OperationLink of={one.caller} range={range} />
            ) : (
              <span className="quiet">entrance</span>
            ),
            <Share of={one.critical_share} />,
            formatDuration(nano(one.mean_self_nano)),
            formatCount(one.calls),
          ],
        }))}
      />
      <List
        title="The same call again and again (N+1)"
        testid="repeated"
        note="One query for all, instead of one for each, saves most of this time."
        none="No caller made five or more calls of one operation, one after another."
        heads={["Operation", "Called by", "Of the time", "Most by one caller", "Calls", "Trace"]}
        rows={found.repeated.map((one) => ({
          key: [one.entrance, one.caller, one.called].map(operationKey).join("\n"),
          data: { most: one.most },
          cells: [
            <>
              <OperationLink of={one.called} range={range} />
              {entrance(one)}
            </>,
            <OperationLink of={one.caller} range={range} />,
            <Share of={one.share} />,
            formatCount(one.most),
            `${formatCount(one.calls)} by ${plural(one.callers, "caller")}`,
            <Example id={one.example_trace} />,
          ],
        }))}
      />
      <List
        title="Called again because it failed"
        testid="retried"
        note="The time until the next attempt is lost. Where few attempts help, fewer would do."
        none="No failed call was made again."
        heads={["Operation", "Called by", "Of the time", "Failed attempts", "Helped", "Trace"]}
        rows={found.retried.map((one) => ({
          key: [one.entrance, one.caller, one.called].map(operationKey).join("\n"),
          data: { attempts: one.attempts },
          cells: [
            <>
              <OperationLink of={one.called} range={range} />
              {entrance(one)}
            </>,
            <OperationLink of={one.caller} range={range} />,
            <Share of={one.share} tone="error" />,
            `${formatCount(one.attempts)}, ${formatCount(one.most)} at most`,
            `${formatCount(one.rescued)} times`,
            <Example id={one.example_trace} />,
          ],
        }))}
      />
      <List
        title="Many calls at a time (fan-out)"
        testid="fan-outs"
        note="The slowest of them decides, and what is called gets them all at once."
        none="No caller made ten or more calls at a time."
        heads={["Caller", "Most at a time", "How often", "Trace"]}
        rows={found.fan_outs.map((one) => ({
          key: [one.entrance, one.caller].map(operationKey).join("\n"),
          data: { most: one.most },
          cells: [
            <>
              <OperationLink of={one.caller} range={range} />
              {entrance(one)}
            </>,
            formatCount(one.most),
            `in ${plural(one.callers, "call")}`,
            <Example id={one.example_trace} />,
          ],
        }))}
      />
      <List
        title="One after another, though they could run together"
        testid="sequential"
        note="A guess where it is not proven: the second call may need what the first one answers."
        none="No such pair of calls cost 1% of the time of its runs."
        heads={["Calls", "Called by", "Would save at most", "Proven", "Times", "Trace"]}
        rows={found.sequential.map((one) => ({
          key: [one.entrance, one.caller, one.first, one.second].map(operationKey).join("\n"),
          data: { proven: String(one.proven) },
          cells: [
            <span className="pair-of">
              <OperationLink of={one.first} range={range} />
              <OperationLink of={one.second} range={range} />
              {entrance(one)}
            </span>,
            <OperationLink of={one.caller} range={range} />,
            <Share of={one.saved_share} />,
            one.proven ? (
              <span
                title={`Seen in the other order ${plural(one.reversed, "time")}, and after a failure ${plural(one.after_failure, "time")}`}
              >
                yes
              </span>
            ) : (
              <span className="warn-text">no: a guess</span>
            ),
            formatCount(one.times),
            <Example id={one.example_trace} />,
          ],
        }))}
      />
    </>
  );
}

function Entrance({ of, range }: { of: OperationName; range: PageRange }) {
  const more = { entrance: of.service, operation: of.operation };
  return (
    <span className="label">
      {" in runs of "}
      <Link to={withRange("/bottlenecks", range, more)}>
        {of.service} {of.operation}
      </Link>
    </span>
  );
}

function Example({ id }: { id: string }) {
  return (
    <Link to={`/trace/${id}`} className="button tiny">
      worst
    </Link>
  );
}

interface Row {
  key: string;
  data: Record<string, string | number>;
  cells: readonly ReactNode[];
}

function List(props: {
  title: string;
  testid: string;
  note: string | null;
  none: string;
  heads: readonly string[];
  rows: readonly Row[];
}) {
  const { rows } = props;
  const isWords = (head: string) => ["Called by", "Proven"].includes(head);
  return (
    <section className="card" aria-labelledby={`${props.testid}-title`} data-testid={props.testid}>
      <h2 id={`${props.testid}-title`}>
        {props.title}
        {rows.length > 0 && <span className="badge">{formatCount(rows.length)}</span>}
      </h2>
      {rows.length === 0 ? (
        <p>{props.none}</p>
      ) : (
        <>
          <div className="scroll-x" tabIndex={0} role="group" aria-label={props.title}>
            <table className="red-table row-table">
              <thead>
                <tr>
                  {props.heads.map((head, at) => (
                    <th key={head} scope="col" className={at === 0 || isWords(head) ? "words" : ""}>
                      {head}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr
                    key={row.key}
                    {...Object.fromEntries(
                      Object.entries(row.data).map(([name, value]) => [`data-${name}`, value]),
                    )}
                  >
                    {row.cells.map((cell, at) =>
                      at === 0 ? (
                        <th key={at} scope="row">
                          {cell}
                        </th>
                      ) : (
                        <td key={at} className={isWords(props.heads[at]!) ? "text" : "number"}>
                          {cell}
                        </td>
                      ),
                    )}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {props.note && <p className="folded quiet">{props.note}</p>}
        </>
      )}
    </section>
  );
}
