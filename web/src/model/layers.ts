/**
 * Places for the nodes of a service map: callers left, callees right, as few
 * crossings as a few sweeps find. Deterministic: the same graph gives the same
 * picture.
 */

export interface Place {
  x: number;
  y: number;
}

export function layers(
  nodes: readonly string[],
  edges: readonly (readonly [from: string, to: string])[],
): Map<string, Place> {
  const names = [...new Set(nodes)].sort();
  const known = new Set(names);
  const inside = edges.filter(([from, to]) => from !== to && known.has(from) && known.has(to));
  return pack(islands(names, inside).map((island) => arrange(island, inside)));
}

/** Nodes that hang together, the largest group first. */
function islands(
  names: readonly string[],
  edges: readonly (readonly [string, string])[],
): string[][] {
  const near = new Map<string, string[]>(names.map((name) => [name, []]));
  for (const [from, to] of edges) {
    near.get(from)!.push(to);
    near.get(to)!.push(from);
  }
  const seen = new Set<string>();
  const result: string[][] = [];
  for (const start of names) {
    if (seen.has(start)) continue;
    seen.add(start);
    const island = [start];
    for (const name of island) {
      for (const next of near.get(name)!) {
        if (seen.has(next)) continue;
        seen.add(next);
        island.push(next);
      }
    }
    result.push(island.sort());
  }
  return result.sort((a, b) => b.length - a.length || (a[0]! < b[0]! ? -1 : 1));
}

/** One island: callers left, callees right. */
function arrange(
  names: readonly string[],
  edges: readonly (readonly [string, string])[],
): Map<string, Place> {
  const here = new Set(names);
  const forward = withoutCycles(
    names,
    edges.filter(([from]) => here.has(from)),
  );
  const level = longestPath(names, forward);
  const columns: string[][] = [];
  for (const name of names) (columns[level.get(name)!] ??= []).push(name);
  sweep(columns, forward);
  const places = new Map<string, Place>();
  columns.forEach((column, x) => {
    column.forEach((name, at) => places.set(name, { x, y: at - (column.length - 1) / 2 }));
  });
  settle(columns, forward, places);
  return places;
}

/** Fewest columns that small islands share a row of. */
const LEAST_COLUMNS = 5;

/** The islands under each other, small ones side by side. */
function pack(all: readonly Map<string, Place>[]): Map<string, Place> {
  const places = new Map<string, Place>();
  const wide = (island: Map<string, Place>) =>
    1 + Math.max(...[...island.values()].map((place) => place.x));
  const columns = Math.max(LEAST_COLUMNS, ...all.map(wide));
  let x = 0;
  let top = 0;
  let bottom = 0;
  for (const island of all) {
    if (x > 0 && x + wide(island) > columns) {
      x = 0;
      top = bottom;
    }
    const ys = [...island.values()].map((place) => place.y);
    const least = Math.min(...ys);
    for (const [name, place] of island) {
      places.set(name, { x: x + place.x, y: top + place.y - least });
    }
    // The largest has its row to itself.
    x = island === all[0] ? columns : x + wide(island);
    bottom = Math.max(bottom, top + Math.max(...ys) - least + 1);
  }
  return places;
}

/** The edges, those that close a circle turned round. */
function withoutCycles(
  names: readonly string[],
  edges: readonly (readonly [string, string])[],
): [string, string][] {
  const out = new Map<string, string[]>(names.map((name) => [name, []]));
  const incoming = new Map<string, number>(names.map((name) => [name, 0]));
  for (const [from, to] of edges) {
    out.get(from)!.push(to);
    incoming.set(to, incoming.get(to)! + 1);
  }
  for (const list of out.values()) list.sort();
  const state = new Map<string, "open" | "done">();
  const result = new Map<string, [string, string]>();
  const starts = [...names].sort((a, b) => incoming.get(a)! - incoming.get(b)!);
  for (const start of starts) {
    if (state.has(start)) continue;
    state.set(start, "open");
    const stack = [{ name: start, next: 0 }];
    while (stack.length > 0) {
      const top = stack.at(-1)!;
      const to = out.get(top.name)![top.next++];
      if (to === undefined) {
        state.set(top.name, "done");
        stack.pop();
        continue;
      }
      const turned = state.get(to) === "open";
      const edge: [string, string] = turned ? [to, top.name] : [top.name, to];
      result.set(edge.join("\n"), edge);
      if (!state.has(to)) {
        state.set(to, "open");
        stack.push({ name: to, next: 0 });
      }
    }
  }
  return [...result.values()];
}

function longestPath(names: readonly string[], edges: readonly [string, string][]) {
  const level = new Map<string, number>(names.map((name) => [name, 0]));
  const waiting = new Map<string, number>(names.map((name) => [name, 0]));
  for (const [, to] of edges) waiting.set(to, waiting.get(to)! + 1);
  const ready = names.filter((name) => waiting.get(name) === 0);
  for (let name = ready.shift(); name !== undefined; name = ready.shift()) {
    for (const [from, to] of edges) {
      if (from !== name) continue;
      level.set(to, Math.max(level.get(to)!, level.get(name)! + 1));
      waiting.set(to, waiting.get(to)! - 1);
      if (waiting.get(to) === 0) ready.push(to);
    }
  }
  return level;
}

/** Orders each column by the mean place of its neighbours, there and back. */
function sweep(columns: string[][], edges: readonly [string, string][]) {
  const order = new Map<string, number>();
  const note = (column: string[]) =>
    column.forEach((name, at) => order.set(name, (at + 0.5) / column.length));
  columns.forEach(note);
  for (let round = 0; round < 8; round++) {
    const down = round % 2 === 0;
    for (const column of down ? columns : [...columns].reverse()) {
      const mean = new Map(
        column.map((name) => {
          const near = edges
            .filter(([from, to]) => (down ? to : from) === name)
            .map(([from, to]) => order.get(down ? from : to)!);
          const sum = near.reduce((total, value) => total + value, 0);
          return [name, near.length > 0 ? sum / near.length : order.get(name)!];
        }),
      );
      column.sort((a, b) => mean.get(a)! - mean.get(b)! || (a < b ? -1 : 1));
      note(column);
    }
  }
}

/** Pulls nodes level with their neighbours, at least one step apart. */
function settle(
  columns: readonly string[][],
  edges: readonly [string, string][],
  places: Map<string, Place>,
) {
  for (let round = 0; round < 12; round++) {
    for (const column of round % 2 === 0 ? columns : [...columns].reverse()) {
      const wanted = column.map((name) => {
        const near = edges.flatMap(([from, to]) =>
          from === name ? [places.get(to)!.y] : to === name ? [places.get(from)!.y] : [],
        );
        const own = places.get(name)!.y;
        if (near.length === 0) return own;
        return (own + near.reduce((sum, y) => sum + y, 0) / near.length) / 2;
      });
      const spaced: number[] = [];
      for (const y of wanted) spaced.push(Math.max(y, (spaced.at(-1) ?? -Infinity) + 1));
      const shift =
        wanted.reduce((sum, y, at) => sum + y - spaced[at]!, 0) / Math.max(1, wanted.length);
      column.forEach((name, at) => (places.get(name)!.y = spaced[at]! + shift));
    }
  }
}
