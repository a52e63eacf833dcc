import { useWatch } from "../../api/queries";
import type { Watch, WatchRule, Webhook } from "../../api/types";
import { useZone } from "../../app/zone";
import { formatDuration } from "../../model/duration";
import { formatCount, plural } from "../../model/number";
import { formatSecond, milliseconds } from "../../model/time";
import { Blank, Failure } from "../../parts/Blank";
import { Prose } from "../../parts/Prose";
import { RowTable } from "../../parts/RowTable";
import type { Column } from "../../parts/RowTable";

/** The rules that the server watches, and what breaks them. */
export default function WatchPage({ when }: { when: string }) {
  const answer = useWatch();
  return (
    <main className="page" tabIndex={-1} data-testid="watch-page">
      <div className="overview">
        <header className="overview-head">
          <h1>Watch rules</h1>
        </header>
        <p className="when quiet">Use it when: {when}</p>
        {answer.error && <Failure error={answer.error} />}
        {!answer.data && !answer.error && <Blank title="Reading rules" busy />}
        {answer.data && <Rules found={answer.data} />}
      </div>
    </main>
  );
}

function Rules({ found }: { found: Watch }) {
  const zone = useZone();
  const broken = found.rules.filter((one) => one.state === "broken").length;
  const moment = (nano: string) => formatSecond(milliseconds(nano), Date.now(), zone);
  return (
    <>
      {found.warnings.map((one) => (
        <div key={one} className="notice warn">
          <Prose text={one} />
        </div>
      ))}
      {found.rules.length > 0 && (
        <section className="card" aria-labelledby="watch-title">
          <h2 id="watch-title">
            {broken === 0 ? "No rule is broken" : `${plural(broken, "rule")} broken`}
          </h2>
          <RowTable
            label="Table of rules"
            testid="watch"
            rows={found.rules}
            columns={columns(moment)}
            rowKey={(one) => one.rule}
            rowData={(one) => ({ rule: one.rule, state: one.state, alerts: one.alerts.length })}
          />
          <p className="folded quiet">
            A rule is about the last {formatDuration(found.window_seconds * 1e9)}, and is compared
            with {formatDuration(found.before_seconds * 1e9)} before. Rules are evaluated every{" "}
            {formatDuration(found.every_seconds * 1e9)}; an alert begins and ends when two
            evaluations in a row agree.
          </p>
          {found.webhook && <Told webhook={found.webhook} />}
        </section>
      )}
    </>
  );
}

function Told({ webhook }: { webhook: Webhook }) {
  const counts = [
    `${formatCount(Number(webhook.told))} told`,
    `${formatCount(Number(webhook.waiting))} waiting`,
    `${plural(Number(webhook.failures), "failure")}`,
    `${formatCount(Number(webhook.dropped))} given up`,
  ];
  return (
    <p className="folded quiet" data-testid="webhook">
      Webhook {webhook.url}: {counts.join(", ")}
      {webhook.last_error && <span className="warn-text"> ({webhook.last_error})</span>}
    </p>
  );
}

const columns = (moment: (nano: string) => string): readonly Column<WatchRule>[] => [
  { id: "rule", name: "Rule", by: (one) => one.rule, show: (one) => <code>{one.rule}</code> },
  {
    id: "state",
    name: "State",
    words: true,
    by: (one) => one.state,
    isError: (one) => one.state === "broken",
    show: (one) => <span title={one.why ?? undefined}>{one.state}</span>,
  },
  {
    id: "since",
    name: "Since",
    by: (one) => Number(one.since_unix_nano),
    show: (one) => moment(one.since_unix_nano),
  },
  {
    id: "evidence",
    name: "What breaks it",
    words: true,
    show: (one) =>
      one.alerts.length === 0
        ? (one.why ?? "–")
        : one.alerts.map((alert) => (
            <div key={alert.subject} title={`since ${moment(alert.since_unix_nano)}`}>
              {alert.text}
            </div>
          )),
  },
];
