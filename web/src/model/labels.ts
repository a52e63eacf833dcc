/** Places labels on a crowded picture: the important ones first, without overlaps. */

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export function overlaps(one: Box, other: Box): boolean {
  return (
    one.left < other.left + other.width &&
    other.left < one.left + one.width &&
    one.top < other.top + other.height &&
    other.top < one.top + one.height
  );
}

const within = (box: Box, bounds: Box): boolean =>
  box.left >= bounds.left &&
  box.top >= bounds.top &&
  box.left + box.width <= bounds.left + bounds.width &&
  box.top + box.height <= bounds.top + bounds.height;

/** Boxes in a grid, so that an overlap test looks at few of them. */
export class Boxes {
  private readonly cells = new Map<number, Box[]>();
  constructor(private readonly cell = 48) {}

  add(box: Box): void {
    this.each(box, (key) => {
      const list = this.cells.get(key);
      if (list) list.push(box);
      else this.cells.set(key, [box]);
      return false;
    });
  }

  isFree(box: Box): boolean {
    return !this.each(box, (key) =>
      (this.cells.get(key) ?? []).some((other) => overlaps(box, other)),
    );
  }

  /** Whether `ask` returns true for any cell under the box. */
  private each(box: Box, ask: (key: number) => boolean): boolean {
    const right = Math.floor((box.left + box.width) / this.cell);
    const bottom = Math.floor((box.top + box.height) / this.cell);
    for (let x = Math.floor(box.left / this.cell); x <= right; x++) {
      for (let y = Math.floor(box.top / this.cell); y <= bottom; y++) {
        // Pictures are less than a million cells tall, so that keys do not collide.
        if (ask(x * 1_000_003 + y)) return true;
      }
    }
    return false;
  }
}

/** A dot that needs a label, in pixels. */
export interface Named {
  x: number;
  y: number;
  radius: number;
  /** Width of the name. */
  width: number;
  /** Width of a second line, which may be left out; 0 for none. */
  noteWidth: number;
}

export interface Label {
  /** The dot's index. */
  at: number;
  /** From the dot's centre to the centre of the label's first line. */
  dx: number;
  dy: number;
  note: boolean;
  box: Box;
}

export const LINE = 15;
const GAP = 3;
/** Space around a name. */
const AIR = 4;

/**
 * Labels for as many of the dots as there is room for, in the given order, all within `bounds`.
 * Labels never cover dots. The position below the dot is preferred, and is the only one with a
 * note.
 */
export function placeLabels(dots: readonly Named[], most: number, bounds?: Box): Label[] {
  const taken = new Boxes();
  for (const { x, y, radius } of dots) {
    taken.add({ left: x - radius, top: y - radius, width: 2 * radius, height: 2 * radius });
  }
  const labels: Label[] = [];
  for (const [at, dot] of dots.entries()) {
    if (labels.length >= most) break;
    for (const label of tries(at, dot)) {
      if (bounds && !within(label.box, bounds)) continue;
      if (!taken.isFree(label.box)) continue;
      taken.add(label.box);
      labels.push(label);
      break;
    }
  }
  return labels;
}

function* tries(at: number, dot: Named): Generator<Label> {
  const { x, y, radius, width, noteWidth } = dot;
  const label = (dx: number, dy: number, note: boolean): Label => {
    const wide = Math.max(width, note ? noteWidth : 0) + AIR;
    return {
      at,
      dx,
      dy,
      note,
      box: {
        left: x + dx - wide / 2,
        top: y + dy - LINE / 2,
        width: wide,
        height: note ? 2 * LINE : LINE,
      },
    };
  };
  const below = radius + GAP + LINE / 2;
  const aside = radius + GAP + (width + AIR) / 2;
  if (noteWidth > 0) yield label(0, below, true);
  yield label(0, below, false);
  yield label(0, -below, false);
  yield label(aside, 0, false);
  yield label(-aside, 0, false);
}
