import type { TraceSummary } from "../api/types";

/** The trace that stands for the usual ones, and how many it was chosen from. */
export interface Usual {
  readonly id: string;
  readonly of: number;
}

/**
 * The usual trace of those that begin as `self` does: of median duration, among those where
 * nothing failed. If something failed in each, among all. Null if there is no other.
 */
export function usual(traces: readonly TraceSummary[], self: Begins): Usual | null {
  const alike = traces.filter(
    (one) =>
      one.trace_id !== self.trace &&
      one.root !== null &&
      one.root.service === self.service &&
      one.root.operation === self.operation,
  );
  const sound = alike.filter((one) => one.errors === 0);
  const among = sound.length > 0 ? sound : alike;
  const sorted = [...among].sort((a, b) => Number(a.duration_nano) - Number(b.duration_nano));
  const middle = sorted[(sorted.length - 1) >> 1];
  return middle ? { id: middle.trace_id, of: sorted.length } : null;
}

/** What a trace begins with. */
export interface Begins {
  readonly trace: string;
  readonly service: string;
  readonly operation: string;
}
