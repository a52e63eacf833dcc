import { useEffect, useState } from "react";
import { setParams } from "../../app/router";
import { useZone } from "../../app/zone";
import { formatRange } from "../../model/time";
import { MOST_STEPS, windowAt } from "./windows";

/** Moves the window of the map back in time, by quarters of its length. */
export function TimeSlider(props: { from: number; to: number; back: number }) {
  const [step, setStep] = useState(props.back);
  const zone = useZone();
  useEffect(() => setStep(props.back), [props.back]);
  const shown = windowAt(props.from, props.to, step);
  const said =
    step === 0
      ? "Now"
      : formatRange(shown.fromMilliseconds, shown.toMilliseconds, Date.now(), zone);
  const take = (to: number) => setParams({ back: to === 0 ? null : String(to), live: null });
  return (
    <label className="time-slider">
      <span>Earlier</span>
      <input
        type="range"
        min={0}
        max={MOST_STEPS}
        // The right end is the latest window.
        value={MOST_STEPS - step}
        aria-label="Window of time"
        aria-valuetext={said}
        data-testid="time-slider"
        onChange={(event) => setStep(MOST_STEPS - Number(event.target.value))}
        onPointerUp={() => take(step)}
        onKeyUp={() => step !== props.back && take(step)}
      />
      <span data-testid="time-window">{said}</span>
      {props.back > 0 && (
        <button type="button" className="button tiny" onClick={() => take(0)}>
          Now
        </button>
      )}
    </label>
  );
}
