/**
 * One colour for each service, the same in every view. A service's slot comes
 * from a hash of its name; where another known service looks like it, the later
 * one takes the next slot that does not, and keeps it in this browser.
 *
 * A slot is a hue at one of two lightnesses in OKLCH, so that all colours look
 * equally strong. Hues near red are left to errors.
 */

const HUES = [258, 155, 58, 310, 205, 105, 338, 178, 80, 284, 130, 232] as const;
export const SLOTS = HUES.length * 2;

/** Lightness and chroma by theme; the same figures stand in `tokens.css`. */
const TONES = {
  light: [
    { l: 0.63, c: 0.135 },
    { l: 0.47, c: 0.105 },
  ],
  dark: [
    { l: 0.72, c: 0.125 },
    { l: 0.56, c: 0.105 },
  ],
} as const;

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

/**
 * Slots for names that have none yet. Taken slots stay; names beyond the
 * number of slots share.
 */
export function assign(
  taken: ReadonlyMap<string, number>,
  names: Iterable<string>,
): Map<string, number> {
  const result = new Map(taken);
  const used = new Set(result.values());
  for (const name of [...new Set(names)].sort()) {
    if (result.has(name)) continue;
    const slot = freeSlot(hash(name) % SLOTS, used);
    used.add(slot);
    result.set(name, slot);
  }
  return result;
}

/** Steps in hue (degrees) at which two colours are still told apart, best first. */
const APART = [66, 50, 40, 28, 1];
/** What another lightness is worth, in degrees of hue. */
const TONE_APART = 36;

/** The first slot from here on that is far from all used ones, or as far as there is. */
function freeSlot(first: number, used: ReadonlySet<number>): number {
  for (const apart of APART) {
    // 7 and 24 share no factor: every slot is visited once.
    for (let step = 0; step < SLOTS; step++) {
      const slot = (first + step * 7) % SLOTS;
      if ([...used].every((other) => distance(slot, other) >= apart)) return slot;
    }
  }
  return first;
}

function distance(one: number, other: number): number {
  const turn = Math.abs(HUES[one % HUES.length]! - HUES[other % HUES.length]!);
  const tone = one < HUES.length === other < HUES.length ? 0 : TONE_APART;
  return Math.min(turn, 360 - turn) + tone;
}

function parts(slot: number, theme: Theme): { l: number; c: number; h: number } {
  const tone = TONES[theme][slot < HUES.length ? 0 : 1];
  return { ...tone, h: HUES[slot % HUES.length]! };
}

/** A CSS colour that follows the theme by itself. */
export function cssColour(slot: number): string {
  const tone = slot < HUES.length ? "a" : "b";
  return `oklch(var(--tone-${tone}) ${HUES[slot % HUES.length]})`;
}

/** `#rrggbb`, for canvases. */
export function hexColour(slot: number, theme: Theme): string {
  const { l, c, h } = parts(slot, theme);
  return oklchToHex(l, c, h);
}

/** OKLCH to sRGB (Björn Ottosson's matrices), clipped to the gamut. */
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
