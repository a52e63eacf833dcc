import { useMemo, useState } from "react";
import { isWhole } from "../../api/pages";
import { useTrace } from "../../api/queries";
import type { TracePage } from "../../api/types";
import { Link, setParams } from "../../app/router";
import { idIn } from "../../app/TopBar";
import { callTree, difference } from "../../model/callTree";
import type { Difference, Verdict } from "../../model/callTree";
import { formatDuration, formatOffset } from "../../model/duration";
import { plural } from "../../model/number";
import { index } from "../../model/tree";
import type { Tree } from "../../model/tree";
import { Blank, Failure } from "../../parts/Blank";
import { Service } from "../../parts/Service";
import { Usual } from "./Usual";

const MARKS: Record<Verdict, string> = {
  added: "only here",
  gone: "only there",
  slower: "slower",
  faster: "faster",
  same: "",
};
const MOST_ROWS = 2000;

/** This trace and another as one tree: what is added, gone, slower. */
export function Compare({ tree, other }: { tree: Tree; other: string | null }) {
  return (
    <div className="trace-view" tabIndex={0} role="group" aria-label="Compare">
      <Usual tree={tree} />
      <Choose key={other} other={other} self={tree.trace.trace_id} />
      {other !== null && <Both tree={tree} other={other} />}
    </div>
  );
}

function Choose({ other, self }: { other: string | null; self: string }) {
  const [text, setText] = useState(other ?? "");
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <form
      className="compare-with"
      onSubmit={(event) => {
        event.preventDefault();
        const id = idIn(text);
        if (id === null) setProblem("No id of a trace in this text: it has 32 hexadecimal digits.");
        else if (id === self) setProblem("That is this trace. Name another.");
        else setParams({ with: id }, "push");
      }}
    >
      <label>
        Compare with the trace{" "}
        <input
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setProblem(null);
          }}
          placeholder="id or link"
          aria-invalid={problem !== null}
          aria-describedby={problem === null ? undefined : "compare-problem"}
          data-testid="compare-id"
          spellCheck={false}
          autoComplete="off"
        />
      </label>
      <button type="submit" className="button">
        Compare
      </button>
      {other !== null && (
        <Link className="button" to={`/trace/${other}?view=compare&with=${self}`}>
          Other way round
        </Link>
      )}
      {problem !== null && (
        <span className="is-error" id="compare-problem" role="alert">
          {problem}
        </span>
      )}
    </form>
  );
}

function Both({ tree, other }: { tree: Tree; other: string }) {
  const answer = useTrace(other, null);
  if (answer.isError) return <Failure error={answer.error} />;
  if (!answer.data) return <Blank title="Loading the other trace" busy />;
  return <Differences tree={tree} other={answer.data} />;
}

function Differences({ tree, other }: { tree: Tree; other: TracePage }) {
  const all = useMemo(() => difference(callTree(index(other)), callTree(tree)), [tree, other]);
  const count = (verdict: Verdict) => all.filter((one) => one.verdict === verdict).length;
  return (
    <>
      {!(isWhole(tree.trace) && isWhole(other)) && (
        <div className="notice warn">
          Not all spans of both traces are loaded: what is missing may only be further on.
        </div>
      )}
      <p className="explained" data-testid="compare-sum">
        Here {formatDuration(tree.length)}, there {formatDuration(Number(other.duration_nano))}.{" "}
        {plural(count("added"), "place")} only here, {count("gone")} only there, {count("slower")}{" "}
        slower, {count("faster")} faster.
      </p>
      <table className="trace-table" data-testid="compare-table">
        <thead>
          <tr>
            <th scope="col">Service and operation</th>
            <th scope="col">Here</th>
            <th scope="col">There</th>
            <th scope="col">Difference</th>
            <th scope="col">
              <span className="unseen">Verdict</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {all.slice(0, MOST_ROWS).map((one, at) => (
            <Row key={at} one={one} />
          ))}
        </tbody>
      </table>
      {all.length > MOST_ROWS && (
        <p className="explained">{plural(all.length - MOST_ROWS, "more place")} not listed.</p>
      )}
    </>
  );
}

function Row({ one }: { one: Difference }) {
  const { before, now } = one;
  const times = (call: Difference["now"]) =>
    call === null
      ? "–"
      : `${formatDuration(call.totalNano)}${call.count > 1 ? ` ×${call.count}` : ""}`;
  return (
    <tr data-verdict={one.verdict}>
      <th scope="row" style={{ paddingLeft: `${14 + Math.min(one.level, 24) * 14}px` }}>
        <Service name={one.service} />
        <span className="cut">{one.operation}</span>
      </th>
      <td className="number">{times(now)}</td>
      <td className="number">{times(before)}</td>
      <td className="number">
        {before && now ? formatOffset(now.totalNano - before.totalNano) : "–"}
      </td>
      <td>{MARKS[one.verdict] && <span className="badge">{MARKS[one.verdict]}</span>}</td>
    </tr>
  );
}
