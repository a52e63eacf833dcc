import { setParams } from "../../app/router";
import { pathSteps } from "../../model/criticalPath";
import type { Segment } from "../../model/criticalPath";
import { formatDuration } from "../../model/duration";
import { formatShare, plural } from "../../model/number";
import type { Tree } from "../../model/tree";
import { Service } from "../../parts/Service";

/** The critical path as a list: where the time of the trace went, and why. */
export function PathView({ tree, segments }: { tree: Tree; segments: readonly Segment[] }) {
  const steps = pathSteps(tree, segments);
  const whole = steps.reduce((sum, step) => sum + step.nano, 0) || 1;
  const first = steps[0];
  return (
    <div className="trace-view" tabIndex={0} role="group" aria-label="Critical path">
      <p className="explained">
        The path goes back from the end of the trace: always in the call that ended last of those
        that had begun. Only less time here makes the trace shorter; what ran beside it does not
        count.{" "}
        {first && (
          <>
            The largest part, {formatShare(first.nano / whole)}, is the own time of{" "}
            <b>{first.span.operation}</b> in {first.span.service}.
          </>
        )}{" "}
        <button
          type="button"
          className="button tiny"
          onClick={() => setParams({ view: null, path: "1" }, "push")}
        >
          Draw it on the waterfall
        </button>
      </p>
      <table className="trace-table" data-testid="path-table" data-steps={steps.length}>
        <thead>
          <tr>
            <th scope="col">Service and operation</th>
            <th scope="col">On the path</th>
            <th scope="col">Share</th>
            <th scope="col">In parts</th>
          </tr>
        </thead>
        <tbody>
          {steps.map((step) => (
            <tr key={step.span.span_id}>
              <th scope="row">
                <Service name={step.span.service} />
                <button
                  type="button"
                  className="link cut"
                  onClick={() =>
                    setParams({ view: null, path: "1", span: step.span.span_id }, "push")
                  }
                >
                  {step.span.operation}
                </button>
              </th>
              <td className="number">{formatDuration(step.nano)}</td>
              <td className="number">{formatShare(step.nano / whole)}</td>
              <td className="number">{plural(step.segments.length, "part")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
