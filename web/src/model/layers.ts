/**
 * Layout of a service map: callers to the left, callees to the right, with crossings reduced by a
 * few sweeps. The layout is deterministic: the same graph gives the same picture. Every step is
 * linear in nodes and edges, except for sorting.
 */

export interface Place {
  x: number;
  y: number;
}

/** Columns of up to this many nodes are not split. */
const LEAST_ROWS = 12;
/** Up to this many levels, each level has its own column. */
const LEAST_LEVELS = 16;
/** Least number of columns in a row of small islands. */
const LEAST_COLUMNS = 5;
const SWEEPS = 8;
const SETTLES = 12;

export function layers(
  nodes: readonly string[],
  edges: readonly (readonly [from: string, to: string])[],
): Map<string, Place> {
  const names = [...new Set(nodes)].sort();
  const number = new Map(names.map((name, at) => [name, at]));
  const web = new Web(names.length);
  for (const [from, to] of edges) {
    const [a, b] = [number.get(from), number.get(to)];
    if (a !== undefined && b !== undefined) web.add(a, b);
  }
  web.sort();
  const places = arrangeAll(web);
  return new Map(names.map((name, at) => [name, places[at]!]));
}

/** A graph of numbered nodes, with the neighbours of each node. */
class Web {
  readonly out: number[][];
  readonly into: number[][];
  private readonly known = new Set<number>();
  constructor(readonly size: number) {
    this.out = Array.from({ length: size }, () => []);
    this.into = Array.from({ length: size }, () => []);
  }
  add(from: number, to: number): void {
    const key = from * this.size + to;
    if (from === to || this.known.has(key)) return;
    this.known.add(key);
    this.out[from]!.push(to);
    this.into[to]!.push(from);
  }
  sort(): void {
    for (const list of [...this.out, ...this.into]) list.sort((a, b) => a - b);
  }
}

function arrangeAll(web: Web): Place[] {
  const forward = withoutCycles(web);
  const level = longestPath(forward);
  return pack(
    islands(web).map((island) => arrange(island, forward, level)),
    web.size,
  );
}

/** Connected components, the largest first. */
function islands(web: Web): number[][] {
  const seen = new Uint8Array(web.size);
  const result: number[][] = [];
  for (let start = 0; start < web.size; start++) {
    if (seen[start]) continue;
    seen[start] = 1;
    const island = [start];
    for (const node of island) {
      for (const near of [web.out[node]!, web.into[node]!]) {
        for (const next of near) {
          if (seen[next]) continue;
          seen[next] = 1;
          island.push(next);
        }
      }
    }
    result.push(island.sort((a, b) => a - b));
  }
  return result.sort((a, b) => b.length - a.length || a[0]! - b[0]!);
}

/** The same graph, with the edges that close a cycle reversed. */
function withoutCycles(web: Web): Web {
  const state = new Uint8Array(web.size); // 1: being visited, 2: done
  const result = new Web(web.size);
  const starts = Array.from({ length: web.size }, (_, at) => at);
  starts.sort((a, b) => web.into[a]!.length - web.into[b]!.length || a - b);
  for (const start of starts) {
    if (state[start]) continue;
    state[start] = 1;
    const stack = [{ node: start, next: 0 }];
    while (stack.length > 0) {
      const top = stack.at(-1)!;
      const to = web.out[top.node]![top.next++];
      if (to === undefined) {
        state[top.node] = 2;
        stack.pop();
        continue;
      }
      if (state[to] === 1) result.add(to, top.node);
      else result.add(top.node, to);
      if (state[to] === 0) {
        state[to] = 1;
        stack.push({ node: to, next: 0 });
      }
    }
  }
  result.sort();
  return result;
}

function longestPath(web: Web): Int32Array {
  const level = new Int32Array(web.size);
  const waiting = Int32Array.from(web.into, (list) => list.length);
  const ready: number[] = [];
  for (let node = 0; node < web.size; node++) if (waiting[node] === 0) ready.push(node);
  for (let at = 0; at < ready.length; at++) {
    const node = ready[at]!;
    for (const to of web.out[node]!) {
      level[to] = Math.max(level[to]!, level[node]! + 1);
      if (--waiting[to]! === 0) ready.push(to);
    }
  }
  return level;
}

/** Lays out one island: callers to the left, callees to the right. */
function arrange(island: readonly number[], web: Web, level: Int32Array): Map<number, Place> {
  // If nearly everything calls everything, the longest path says little about the order. Several
  // levels then share a column.
  const deepest = island.reduce((most, node) => Math.max(most, level[node]!), 0) + 1;
  const shared = Math.min(
    1,
    Math.max(LEAST_LEVELS, Math.ceil(1.2 * Math.sqrt(island.length))) / deepest,
  );
  const columns: number[][] = [];
  for (const node of island) (columns[Math.floor(level[node]! * shared)] ??= []).push(node);
  const filled = columns.filter(Boolean);
  sweep(filled, web);
  // A column that is much taller than the picture is wide is split into several.
  const most = Math.max(LEAST_ROWS, Math.ceil(1.2 * Math.sqrt(island.length)));
  const broken = filled.flatMap((column) => {
    const parts = Math.ceil(column.length / most);
    if (parts === 1) return [column];
    return Array.from({ length: parts }, (_, part) =>
      column.filter((_, at) => at % parts === part),
    );
  });
  const places = new Map<number, Place>();
  broken.forEach((column, x) => {
    column.forEach((node, at) => places.set(node, { x, y: at - (column.length - 1) / 2 }));
  });
  settle(broken, web, places);
  return places;
}

/** Sorts each column by the mean position of its neighbours, in alternating directions. */
function sweep(columns: number[][], web: Web): void {
  const order = new Map<number, number>();
  const note = (column: number[]) =>
    column.forEach((node, at) => order.set(node, (at + 0.5) / column.length));
  columns.forEach(note);
  for (let round = 0; round < SWEEPS; round++) {
    const down = round % 2 === 0;
    for (const column of down ? columns : [...columns].reverse()) {
      const mean = new Map(
        column.map((node) => {
          const near = down ? web.into[node]! : web.out[node]!;
          const sum = near.reduce((total, other) => total + order.get(other)!, 0);
          return [node, near.length > 0 ? sum / near.length : order.get(node)!];
        }),
      );
      column.sort((a, b) => mean.get(a)! - mean.get(b)! || a - b);
      note(column);
    }
  }
}

/** Moves nodes to the height of their neighbours, at least one step apart. */
function settle(columns: readonly number[][], web: Web, places: Map<number, Place>): void {
  for (let round = 0; round < SETTLES; round++) {
    for (const column of round % 2 === 0 ? columns : [...columns].reverse()) {
      const wanted = column.map((node) => {
        const near = [...web.out[node]!, ...web.into[node]!];
        const own = places.get(node)!.y;
        if (near.length === 0) return own;
        return (own + near.reduce((sum, other) => sum + places.get(other)!.y, 0) / near.length) / 2;
      });
      const spaced: number[] = [];
      for (const y of wanted) spaced.push(Math.max(y, (spaced.at(-1) ?? -Infinity) + 1));
      const shift =
        wanted.reduce((sum, y, at) => sum + y - spaced[at]!, 0) / Math.max(1, wanted.length);
      column.forEach((node, at) => (places.get(node)!.y = spaced[at]! + shift));
    }
  }
}

/** Stacks the islands, small ones side by side. */
function pack(all: readonly Map<number, Place>[], size: number): Place[] {
  const places: Place[] = Array.from({ length: size }, () => ({ x: 0, y: 0 }));
  const sizes = all.map((island) => {
    let [wide, least, most] = [1, Infinity, -Infinity];
    for (const { x, y } of island.values()) {
      wide = Math.max(wide, x + 1);
      least = Math.min(least, y);
      most = Math.max(most, y);
    }
    return { wide, least, tall: most - least + 1 };
  });
  const widest = sizes.reduce((most, { wide }) => Math.max(most, wide), LEAST_COLUMNS);
  const columns = Math.max(widest, Math.ceil(0.7 * Math.sqrt(size)));
  let [x, top, bottom] = [0, 0, 0];
  all.forEach((island, at) => {
    const { wide, least, tall } = sizes[at]!;
    if (x > 0 && x + wide > columns) {
      x = 0;
      top = bottom;
    }
    for (const [node, place] of island) {
      places[node] = { x: x + place.x, y: top + place.y - least };
    }
    // The largest island has a row of its own.
    x = at === 0 ? columns : x + wide;
    bottom = Math.max(bottom, top + tall);
  });
  return places;
}
