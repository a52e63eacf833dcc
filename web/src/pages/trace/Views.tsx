import { setView, VIEWS } from "./state";
import type { View } from "./state";

const NAMES: Record<View, string> = {
  waterfall: "Waterfall",
  flame: "Flame graph",
  operations: "Operations",
  map: "Tree map",
  path: "Critical path",
  hops: "Hops",
  compare: "Compare",
};

/** Chooses how the trace is shown. The choice is in the address. */
export function Views({ view, whole }: { view: View; whole: boolean }) {
  return (
    <div className="trace-views segments" role="group" aria-label="Views of the trace">
      {VIEWS.map((one) => (
        <button
          key={one}
          type="button"
          className="button"
          aria-pressed={one === view}
          data-testid={`view-${one}`}
          onClick={() => setView(one)}
        >
          {NAMES[one]}
        </button>
      ))}
      {!whole && view !== "waterfall" && (
        <span className="views-note warn-text">of the loaded spans only</span>
      )}
    </div>
  );
}
