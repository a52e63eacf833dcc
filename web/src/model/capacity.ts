/** What-if rates of entrances, as the address and the API spell them. */
import type { ScaledEntrance } from "../api/types";

/** A comma after a factor or a rate. Operations may have others. */
const BETWEEN = /(?<=(?:x|\/s)\s*),/i;
const SCALE = /^(.*)=\s*((?:\d+(?:\.\d+)?|\.\d+)\s*(?:x|\/s))\s*$/i;

/** All other entrances. */
export const OTHERS = "*";

/** Factors of the slider's steps. */
export const FACTORS: readonly number[] = [
  0, 0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100,
];
export const UNCHANGED = FACTORS.indexOf(1);

export interface Scales {
  /** The factor or rate of each entrance, by its name: `3x`, `200/s`. */
  by: ReadonlyMap<string, string>;
  /** What was not understood. */
  wrong: readonly string[];
}

/** Parses the `scale` parameters of the address. */
export function scalesOf(texts: readonly string[]): Scales {
  const by = new Map<string, string>();
  const wrong: string[] = [];
  for (const text of texts.flatMap((one) => one.split(BETWEEN)).map((one) => one.trim())) {
    if (text === "") continue;
    const match = SCALE.exec(text);
    if (match) by.set(match[1]!.trim(), canonical(match[2]!)!);
    else wrong.push(text);
  }
  return { by, wrong };
}

/** Parameters in the API's order: the last that fits counts, so all others come first. */
export function scaleTexts(by: ReadonlyMap<string, string>): string[] {
  const texts = [...by].map(([name, value]) => `${name}=${value}`);
  return texts.sort((a, b) => Number(b.startsWith("*=")) - Number(a.startsWith("*=")));
}

/** `3x` or `200/s` of a text; a number alone is a factor; null if it is neither. */
export function canonical(text: string): string | null {
  const match = /^\s*(?:[x×]\s*)?(\d+(?:\.\d+)?|\.\d+)\s*(x|×|\/s)?\s*$/i.exec(text);
  if (!match) return null;
  return `${Number(match[1])}${match[2] === "/s" || match[2] === "/S" ? "/s" : "x"}`;
}

/** With another value for an entrance; a factor of 1 and null take it away. */
export function withScale(
  by: ReadonlyMap<string, string>,
  name: string,
  value: string | null,
): Map<string, string> {
  const next = new Map(by);
  // With a factor for all others, 1 has to be said.
  const isPlain = value === "1x" && (name === OTHERS || !by.has(OTHERS));
  if (value === null || isPlain) next.delete(name);
  else next.set(name, value);
  return next;
}

/** The step of the slider that is nearest to a factor, by ratio. */
export function stepOf(factor: number): number {
  if (factor <= 0) return 0;
  let best = 1;
  for (const [step, one] of FACTORS.entries()) {
    if (one === 0) continue;
    if (Math.abs(Math.log(one / factor)) < Math.abs(Math.log(FACTORS[best]! / factor))) best = step;
  }
  return best;
}

export const entranceName = (one: Pick<ScaledEntrance, "service" | "operation">): string =>
  `${one.service} ${one.operation}`;

/** `× 3`, `× 0.25`; `as now` for 1. */
export function factorText(factor: number): string {
  if (Math.abs(factor - 1) < 1e-9) return "as now";
  return `× ${Number(factor.toFixed(factor < 10 ? 2 : 1))}`;
}

export type Room = "beyond" | "near" | "within";

/** Whether anybody has seen such a load. */
export function roomOf(toPeak: number): Room {
  return toPeak > 1 ? "beyond" : toPeak > 0.8 ? "near" : "within";
}

/** A load as a part of its peak: `67%`, and from ten times on `× 43`. */
export const peakText = (toPeak: number): string =>
  toPeak >= 10 ? `× ${toPeak.toFixed(0)}` : `${(toPeak * 100).toFixed(0)}%`;
