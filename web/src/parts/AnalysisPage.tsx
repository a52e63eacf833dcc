import { useRef } from "react";
import type { ReactNode } from "react";
import type { ObservedRuns } from "../api/types";
import { usePlace } from "../app/router";
import { useScroll } from "../app/visit";
import { Head, Observed } from "./AnalysisHead";
import { Blank, Failure } from "./Blank";
import type { PageRange } from "./range";

/** An answer of the API that counts runs. */
interface OfRuns {
  observed: ObservedRuns;
  warnings: readonly string[];
}

/** A page about the runs of a range of time: its states are those of its answer. */
export function AnalysisPage<T extends OfRuns>(props: {
  title: string;
  when: string;
  testid: string;
  range: PageRange;
  /** Null if something has to be chosen first. */
  answer: { data: T | undefined; error: Error | null; isPlaceholderData: boolean } | null;
  tools?: ReactNode;
  children: (data: T) => ReactNode;
  /** What is shown where there is no answer to ask for. */
  choose?: ReactNode;
}) {
  const { entry } = usePlace();
  const page = useRef<HTMLElement>(null);
  const { answer } = props;
  const data = answer?.data;
  useScroll(page, entry, props.testid, data !== undefined);
  return (
    <main className="page" ref={page} tabIndex={-1} data-testid={`${props.testid}-page`}>
      <div className="overview" data-stale={answer?.isPlaceholderData ?? false}>
        <Head range={props.range}>
          <h1>{props.title}</h1>
        </Head>
        <p className="when quiet">Use it when: {props.when}</p>
        {props.tools && <div className="analysis-tools">{props.tools}</div>}
        {answer === null && props.choose}
        {answer?.error && <Failure error={answer.error} />}
        {answer && !data && !answer.error && <Blank title="Reading traces" busy />}
        {data && data.observed.runs === 0 && (
          <Blank title="No whole trace in this time">
            <p>A longer range of time may have some.</p>
          </Blank>
        )}
        {data && data.observed.runs > 0 && props.children(data)}
        {data && <Observed observed={data.observed} warnings={data.warnings} />}
      </div>
    </main>
  );
}
