import { useState } from "react";
import { useCapacity } from "../../api/queries";
import type { PredictedLoad } from "../../api/types";
import { setParams, usePlace } from "../../app/router";
import { formatRate } from "../../model/number";
import { Failure } from "../../parts/Blank";
import { Service } from "../../parts/Service";
import type { PageRange } from "../../parts/range";

const MOST_SERVICES = 50;
/** A comma after a factor or a rate. Operations may have others. */
const BETWEEN = /(?<=(?:x|\/s)\s*),/i;

/** What every service gets if entrances are called more often. */
export function CapacityBox({ range }: { range: PageRange }) {
  const { params } = usePlace();
  const asked = params.get("scale") ?? "";
  const [typed, setTyped] = useState(asked || "*=2x");
  const scales = asked.split(BETWEEN).filter((one) => one.trim() !== "");
  const answer = useCapacity(range.start, range.end, scales);
  return (
    <section className="card" aria-labelledby="capacity-title" data-testid="capacity">
      <h2 id="capacity-title">Capacity</h2>
      <form
        className="capacity-form"
        onSubmit={(event) => {
          event.preventDefault();
          setParams({ scale: typed.trim() || null }, "push");
        }}
      >
        <label>
          If{" "}
          <input
            type="text"
            value={typed}
            spellCheck={false}
            data-testid="scale"
            placeholder="frontend POST /checkout=3x, *=2x"
            onChange={(event) => setTyped(event.target.value)}
          />
        </label>
        <button type="submit" className="button">
          Predict
        </button>
        <span className="quiet">
          An entrance with a factor (<code>3x</code>) or a rate (<code>200/s</code>); commas between
          several; <code>*</code> for all others.
        </span>
      </form>
      {answer.error && scales.length > 0 && <Failure error={answer.error} />}
      {answer.data && scales.length > 0 && (
        <div className="scroll-x" tabIndex={0} role="group" aria-label="Table of loads">
          <table className="red-table loads-table" data-testid="loads">
            <thead>
              <tr>
                <th scope="col">Service</th>
                <th scope="col">Now</th>
                <th scope="col">Then</th>
                <th scope="col">Peak seen</th>
                <th scope="col" title="Above 100% nobody has seen such a load">
                  Of peak
                </th>
                <th scope="col" title="How many calls work at a time, in the mean">
                  Busy then
                </th>
                <th scope="col">Most from</th>
              </tr>
            </thead>
            <tbody>
              {answer.data.services.slice(0, MOST_SERVICES).map((load) => (
                <Row key={load.service} load={load} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Row({ load }: { load: PredictedLoad }) {
  const most = load.chains[0];
  return (
    <tr
      data-service={load.service}
      data-now={load.now_per_second}
      data-then={load.predicted_per_second}
    >
      <th scope="row">
        <Service name={load.service} />
      </th>
      <td className="number">{formatRate(load.now_per_second)}</td>
      <td className="number">{formatRate(load.predicted_per_second)}</td>
      <td className="number">{formatRate(load.peak_per_second)}</td>
      <td className={`number ${load.to_peak > 1 ? "is-error" : ""}`}>
        {(load.to_peak * 100).toFixed(0)}%
      </td>
      <td className="number">{load.busy_predicted.toFixed(2)}</td>
      <td className="text">
        {most && `${most.service} ${most.operation} ${formatRate(most.predicted_per_second)}`}
      </td>
    </tr>
  );
}
