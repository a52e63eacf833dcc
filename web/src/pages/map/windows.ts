/** Earlier windows of time, each as long as the chosen range. */
import { unixNano } from "../../model/time";

/** Steps back in time: quarters of a window. */
export const STEPS_OF_A_WINDOW = 4;
export const MOST_STEPS = 96;

export interface Window {
  /** As the API spells times. */
  start: string;
  end: string;
  fromMilliseconds: number;
  toMilliseconds: number;
}

/** `back` of the address, within bounds. */
export function stepsBack(text: string | null): number {
  const steps = Number(text ?? 0);
  return Number.isInteger(steps) ? Math.min(MOST_STEPS, Math.max(0, steps)) : 0;
}

/**
 * The window that ends `steps` quarters of its length earlier. Ends are rounded to a sixtieth of
 * the window, so that an answer is used again while time goes on.
 */
export function windowAt(from: number, to: number, steps: number): Window {
  const length = Math.max(1000, to - from);
  const grid = Math.max(1000, Math.floor(length / 60));
  const end = Math.floor(to / grid) * grid - (steps * length) / STEPS_OF_A_WINDOW;
  const start = end - length;
  return {
    start: unixNano(start),
    end: unixNano(end),
    fromMilliseconds: start,
    toMilliseconds: end,
  };
}
