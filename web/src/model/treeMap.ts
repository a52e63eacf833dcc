/**
 * Tree map: areas are the own time of services, and within them of their operations. Rectangles
 * are laid in strips that are kept as square as they can be.
 */
import type { OperationRow } from "./callTree";

/** Places are shares of the whole picture. */
export interface Area {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Tile extends Area {
  row: OperationRow;
}

export interface Block extends Area {
  service: string;
  selfNano: number;
  tiles: Tile[];
}

/** Services and operations with less than this part of the whole are left out, and counted. */
const LEAST_SHARE = 0.0005;

/** How far a strip of these sizes is from squares: the worst ratio of sides. */
function worst(sizes: readonly number[], sum: number, side: number): number {
  const thick = sum / side;
  return sizes.reduce((most, size) => {
    const long = size / thick;
    return Math.max(most, long > thick ? long / thick : thick / long);
  }, 1);
}

/**
 * Divides an area among weights, the largest first. The picture is `ratio` times as wide as it is
 * high, so that squares are meant as they are seen.
 */
export function divided(weights: readonly number[], area: Area, ratio: number): Area[] {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  // Seen sizes: widths are stretched by the picture's ratio.
  let { left, top, height } = area;
  left *= ratio;
  let width = area.width * ratio;
  const scale = total === 0 ? 0 : (width * height) / total;
  const result: Area[] = [];
  for (let at = 0; at < weights.length;) {
    const side = Math.min(width, height);
    const strip: number[] = [];
    let sum = 0;
    while (at + strip.length < weights.length) {
      const next = weights[at + strip.length]! * scale;
      const isBetter =
        strip.length === 0 || worst([...strip, next], sum + next, side) <= worst(strip, sum, side);
      if (!isBetter) break;
      strip.push(next);
      sum += next;
    }
    const isUpright = width >= height;
    const thick = side === 0 ? 0 : sum / side;
    let along = isUpright ? top : left;
    for (const size of strip) {
      const long = thick === 0 ? 0 : size / thick;
      result.push(
        isUpright
          ? { left: left / ratio, top: along, width: thick / ratio, height: long }
          : { left: along / ratio, top, width: long / ratio, height: thick },
      );
      along += long;
    }
    if (isUpright) {
      left += thick;
      width = Math.max(0, width - thick);
    } else {
      top += thick;
      height = Math.max(0, height - thick);
    }
    at += strip.length;
  }
  return result;
}

/** The tree map of a trace, and how many operations are too small for it. */
export function treeMap(
  rows: readonly OperationRow[],
  ratio: number,
): { blocks: Block[]; hidden: number } {
  const total = rows.reduce((sum, row) => sum + row.selfNano, 0);
  const shown = rows.filter((row) => row.selfNano > total * LEAST_SHARE);
  const services = new Map<string, OperationRow[]>();
  for (const row of shown) {
    const list = services.get(row.service);
    if (list) list.push(row);
    else services.set(row.service, [row]);
  }
  const sized = [...services]
    .map(([service, own]) => ({
      service,
      rows: own.sort((a, b) => b.selfNano - a.selfNano),
      selfNano: own.reduce((sum, row) => sum + row.selfNano, 0),
    }))
    .sort((a, b) => b.selfNano - a.selfNano);
  const areas = divided(
    sized.map((one) => one.selfNano),
    { left: 0, top: 0, width: 1, height: 1 },
    ratio,
  );
  const blocks = sized.map(({ service, rows: own, selfNano }, at): Block => {
    const area = areas[at]!;
    const inner = divided(
      own.map((row) => row.selfNano),
      area,
      ratio,
    );
    return { ...area, service, selfNano, tiles: own.map((row, i) => ({ ...inner[i]!, row })) };
  });
  return { blocks, hidden: rows.length - shown.length };
}
