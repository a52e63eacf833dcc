/**
 * One colour for each service, computed from names only, so that it is the same in every browser. A
 * service's slot comes from a hash of its name. If two services that are shown together look alike,
 * one of them takes the next slot that differs enough from all others.
 *
 * A slot is a hue at one of four tones in OKLCH. Hues near red are reserved for errors.
 */

const FIRST_HUE = 50;
const HUE_STEP = 12;
const HUES = 25;

/** Lightness and chroma by theme. `tokens.css` has the same numbers. */
const TONES = {
  light: [
    { l: 0.62, c: 0.14 },
    { l: 0.47, c: 0.11 },
    { l: 0.55, c: 0.055 },
    { l: 0.36, c: 0.085 },
  ],
  dark: [
    { l: 0.72, c: 0.125 },
    { l: 0.58, c: 0.11 },
    { l: 0.66, c: 0.05 },
    { l: 0.86, c: 0.085 },
  ],
} as const;
const TONE_NAMES = "abcd";

export const SLOTS = HUES * TONE_NAMES.length;

export type Theme = keyof typeof TONES;

/** FNV-1a, 32 bits. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    value ^= text.charCodeAt(index);
    value = Math.imul(value, 0x01000193);
  }
  return value >>> 0;
}

/** The slot of a service if no other service is in the way. */
export const ownSlot = (name: string): number => hash(name) % STRONG;

/** Slots of strong colours. Faint and dark colours are only used for many services. */
const STRONG = 2 * HUES;
/** Colour differences that are tried, the largest first, and how many slots are tried with each. */
const APART: readonly [least: number, slots: number][] = [
  [0.1, STRONG],
  [0.08, STRONG],
  [0.075, SLOTS],
  [0.055, SLOTS],
  [0.04, SLOTS],
  [0.025, SLOTS],
  [1e-6, SLOTS],
];

/**
 * A preferred slot that differs this much from the others is kept, so that a service has the
 * same colour on all pages.
 */
const KEPT = 0.08;

/**
 * Slots for services that are shown together: the preferred slot of each, or, if another service
 * looks like it, the next slot that differs enough. The order of the names does not matter.
 */
export function assign(
  names: Iterable<string>,
  wish: (name: string) => number = ownSlot,
): Map<string, number> {
  const result = new Map<string, number>();
  const used = new Set<number>();
  const order = [...new Set(names)].map((name) => ({ name, key: hash(name) }));
  order.sort((a, b) => a.key - b.key || (a.name < b.name ? -1 : 1));
  const take = (name: string, slot: number) => {
    used.add(slot);
    result.set(name, slot);
  };
  for (const { name } of order) {
    if (isApart(wish(name), used, KEPT)) take(name, wish(name));
  }
  for (const { name } of order) {
    if (!result.has(name)) take(name, freeSlot(wish(name), used));
  }
  return result;
}

function isApart(slot: number, used: ReadonlySet<number>, least: number): boolean {
  for (const other of used) if (difference(slot, other) < least) return false;
  return true;
}

function freeSlot(first: number, used: ReadonlySet<number>): number {
  if (used.size >= SLOTS) return first;
  for (const [least, slots] of APART) {
    // 37 is coprime to 50 and 100, so every slot is visited once.
    for (let step = 0; step < slots; step++) {
      const slot = (first + step * 37) % slots;
      if (isApart(slot, used, least)) return slot;
    }
  }
  return first;
}

let differences: Float32Array | null = null;

/** How different two slots look (distance in OKLab), in the theme in which they are more alike. */
export function difference(one: number, other: number): number {
  if (differences === null) {
    differences = new Float32Array(SLOTS * SLOTS);
    for (let a = 0; a < SLOTS; a++) {
      for (let b = 0; b < SLOTS; b++) {
        differences[a * SLOTS + b] = Math.min(apart(a, b, "light"), apart(a, b, "dark"));
      }
    }
  }
  return differences[one * SLOTS + other]!;
}

function apart(one: number, other: number, theme: Theme): number {
  const [x, y] = [parts(one, theme), parts(other, theme)];
  const turn = ((x.h - y.h) * Math.PI) / 180;
  const chroma = x.c * x.c + y.c * y.c - 2 * x.c * y.c * Math.cos(turn);
  return Math.sqrt((x.l - y.l) ** 2 + chroma);
}

function parts(slot: number, theme: Theme): { l: number; c: number; h: number } {
  const tone = TONES[theme][Math.floor(slot / HUES)]!;
  return { ...tone, h: FIRST_HUE + (slot % HUES) * HUE_STEP };
}

/** A CSS colour that changes with the theme. */
export function cssColour(slot: number): string {
  const tone = TONE_NAMES[Math.floor(slot / HUES)];
  return `oklch(var(--tone-${tone}) ${FIRST_HUE + (slot % HUES) * HUE_STEP})`;
}

/** The colour as `#rrggbb`, for canvases. */
export function hexColour(slot: number, theme: Theme): string {
  const { l, c, h } = parts(slot, theme);
  return oklchToHex(l, c, h);
}

/** Converts OKLCH to sRGB (Björn Ottosson's matrices), clipped to the gamut. */
export function oklchToHex(lightness: number, chroma: number, hue: number): string {
  const angle = (hue * Math.PI) / 180;
  const a = chroma * Math.cos(angle);
  const b = chroma * Math.sin(angle);
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
  ];
  return `#${linear
    .map((value) => {
      const clipped = Math.min(1, Math.max(0, value));
      const gamma = clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055;
      return Math.round(gamma * 255)
        .toString(16)
        .padStart(2, "0");
    })
    .join("")}`;
}
