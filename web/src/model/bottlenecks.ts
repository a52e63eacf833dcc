/** What was found in the runs of each entrance. Shares are of the runs of one entrance only. */
import type { Bottlenecks, OperationName } from "../api/types";

const LISTS = ["shares", "repeated", "retried", "fan_outs", "sequential"] as const;

/** The entrances that something was found below, those with most calls on top. */
export function entrancesOf(found: Bottlenecks): OperationName[] {
  const seen = new Map<string, { name: OperationName; calls: number }>();
  for (const list of LISTS) {
    for (const { entrance } of found[list]) {
      const key = `${entrance.service}\n${entrance.operation}`;
      if (!seen.has(key)) seen.set(key, { name: entrance, calls: 0 });
    }
  }
  // The entrance's own time has no caller: its calls are the runs.
  for (const share of found.shares) {
    if (share.caller !== null) continue;
    const one = seen.get(`${share.entrance.service}\n${share.entrance.operation}`);
    if (one) one.calls = share.calls;
  }
  return [...seen.values()].sort((a, b) => b.calls - a.calls).map(({ name }) => name);
}

/** Only what was found below one entrance; null is all. */
export function below(found: Bottlenecks, entrance: OperationName | null): Bottlenecks {
  if (entrance === null) return found;
  const fits = (one: { entrance: OperationName }) =>
    one.entrance.service === entrance.service && one.entrance.operation === entrance.operation;
  return {
    ...found,
    shares: found.shares.filter(fits),
    repeated: found.repeated.filter(fits),
    retried: found.retried.filter(fits),
    fan_outs: found.fan_outs.filter(fits),
    sequential: found.sequential.filter(fits),
  };
}

/** What the shares of an entrance leave out: those of a list that is cut add up to less than 1. */
export function leftOut(shares: readonly { critical_share: number }[]): number {
  return Math.max(0, 1 - shares.reduce((sum, one) => sum + one.critical_share, 0));
}
