/** The calls of a trace, merged: what was called from the same place by the same name is one node. */
import { nano } from "./duration";
import { outcome } from "./outcome";
import type { Tree } from "./tree";

export interface Call {
  /** Identifies the place in this trace: calls are numbered in the order of their first spans. */
  id: number;
  service: string;
  operation: string;
  count: number;
  errors: number;
  totalNano: number;
  selfNano: number;
  children: Call[];
}

const nameOf = (service: string, operation: string) => `${service}\u0001${operation}`;

/** The merged calls from the top, in the order in which they were first made. */
export function callTree(tree: Tree): Call[] {
  const tops: Call[] = [];
  const placed = new Map<string, Call>();
  const known = new Map<string, Call>();
  // Parents come before their children in a page.
  for (const span of tree.trace.spans) {
    const parent = span.parent === null ? undefined : placed.get(span.parent);
    const place = `${parent?.id ?? -1} ${nameOf(span.service, span.operation)}`;
    let call = known.get(place);
    if (!call) {
      call = {
        id: known.size,
        service: span.service,
        operation: span.operation,
        count: 0,
        errors: 0,
        totalNano: 0,
        selfNano: 0,
        children: [],
      };
      known.set(place, call);
      (parent?.children ?? tops).push(call);
    }
    placed.set(span.span_id, call);
    call.count++;
    if (outcome(span).failed) call.errors++;
    call.totalNano += nano(span.duration_nano);
    call.selfNano += nano(span.self_nano);
  }
  return tops;
}

/** A box of the flame graph; places are shares of the whole width. */
export interface Box {
  call: Call;
  level: number;
  left: number;
  width: number;
}

/** Boxes narrower than this cannot be seen. */
const NARROWEST = 0.0008;
const MOST_BOXES = 3000;

/**
 * The flame graph: a box is as wide as its time. Calls that ran at the same time may together be
 * longer than their caller; they then share its width.
 */
export function flame(tops: readonly Call[]): { boxes: Box[]; levels: number; hidden: number } {
  const boxes: Box[] = [];
  let levels = 0;
  let hidden = 0;
  let row: { calls: readonly Call[]; left: number; width: number; totalNano: number }[] = [
    { calls: tops, left: 0, width: 1, totalNano: 0 },
  ];
  for (let level = 0; row.length > 0; level++) {
    const next: typeof row = [];
    for (const { calls, left, width, totalNano } of row) {
      const sum = calls.reduce((all, call) => all + call.totalNano, 0);
      const scale = width / Math.max(sum, totalNano, 1);
      let at = left;
      for (const call of [...calls].sort((a, b) => b.totalNano - a.totalNano)) {
        const own = call.totalNano * scale;
        if (own < NARROWEST || boxes.length >= MOST_BOXES) hidden++;
        else {
          boxes.push({ call, level, left: at, width: own });
          levels = level + 1;
          if (call.children.length > 0) {
            next.push({ calls: call.children, left: at, width: own, totalNano: call.totalNano });
          }
        }
        at += own;
      }
    }
    row = next;
  }
  return { boxes, levels, hidden };
}

/** Finds a call by its number. */
export function callAt(tops: readonly Call[], id: number): Call | undefined {
  const waiting = [...tops];
  for (let call = waiting.pop(); call; call = waiting.pop()) {
    if (call.id === id) return call;
    waiting.push(...call.children);
  }
  return undefined;
}

/** What one service did under one name, in the whole trace. */
export interface OperationRow {
  service: string;
  operation: string;
  count: number;
  errors: number;
  totalNano: number;
  selfNano: number;
  longestNano: number;
}

export function operationRows(tree: Tree): OperationRow[] {
  const rows = new Map<string, OperationRow>();
  for (const span of tree.trace.spans) {
    const key = nameOf(span.service, span.operation);
    let row = rows.get(key);
    if (!row) {
      const { service, operation } = span;
      row = { service, operation, count: 0, errors: 0, totalNano: 0, selfNano: 0, longestNano: 0 };
      rows.set(key, row);
    }
    row.count++;
    if (outcome(span).failed) row.errors++;
    row.totalNano += nano(span.duration_nano);
    row.selfNano += nano(span.self_nano);
    row.longestNano = Math.max(row.longestNano, nano(span.duration_nano));
  }
  return [...rows.values()];
}

export type Verdict = "added" | "gone" | "slower" | "faster" | "same";

/** One place of two traces. */
export interface Difference {
  service: string;
  operation: string;
  level: number;
  before: Call | null;
  now: Call | null;
  verdict: Verdict;
}

/** A difference in time is notable if it is this share of the call, and of the whole trace. */
const NOTABLE_OF_CALL = 0.2;
const NOTABLE_OF_TRACE = 0.01;

/** Both trees as one: every place of either, in the order of the second, then what is gone. */
export function difference(before: readonly Call[], now: readonly Call[]): Difference[] {
  const whole = Math.max(
    1,
    ...[before, now].map((calls) => calls.reduce((sum, call) => sum + call.totalNano, 0)),
  );
  const result: Difference[] = [];
  const stack: { before: Call | null; now: Call | null; level: number }[] = [];
  const push = (old: readonly Call[], current: readonly Call[], level: number) => {
    const olds = new Map(old.map((call) => [nameOf(call.service, call.operation), call]));
    const pairs = current.map((call) => {
      const name = nameOf(call.service, call.operation);
      const match = olds.get(name) ?? null;
      olds.delete(name);
      return { before: match, now: call as Call | null, level };
    });
    for (const call of olds.values()) pairs.push({ before: call, now: null, level });
    stack.push(...pairs.reverse());
  };
  push(before, now, 0);
  for (let at = stack.pop(); at; at = stack.pop()) {
    const shown = (at.now ?? at.before)!;
    result.push({
      service: shown.service,
      operation: shown.operation,
      level: at.level,
      before: at.before,
      now: at.now,
      verdict: verdict(at.before, at.now, whole),
    });
    push(at.before?.children ?? [], at.now?.children ?? [], at.level + 1);
  }
  return result;
}

function verdict(before: Call | null, now: Call | null, whole: number): Verdict {
  if (before === null) return "added";
  if (now === null) return "gone";
  const more = now.totalNano - before.totalNano;
  const size = Math.abs(more);
  const least = Math.max(before.totalNano * NOTABLE_OF_CALL, whole * NOTABLE_OF_TRACE);
  return size <= least ? "same" : more > 0 ? "slower" : "faster";
}
