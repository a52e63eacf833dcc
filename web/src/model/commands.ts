/** Commands by name, as one types. */

export interface Command {
  name: string;
  /** What kind of thing it is. */
  note: string;
  to?: string;
  run?: () => void;
}

/** Whether the letters occur in this order; less is better, null if they do not. */
export function distance(name: string, typed: string): number | null {
  const text = name.toLowerCase();
  const wanted = typed.toLowerCase().replace(/\s+/g, "");
  const whole = text.indexOf(typed.toLowerCase().trim());
  if (whole >= 0) return whole;
  let at = 0;
  let gaps = 0;
  for (const letter of wanted) {
    const next = text.indexOf(letter, at);
    if (next < 0) return null;
    gaps += next - at;
    at = next + 1;
  }
  return 1000 + gaps;
}

/** The commands that fit, the best first. */
export function fitting(all: readonly Command[], typed: string, most: number): Command[] {
  return all
    .flatMap((command, at) => {
      const far = distance(command.name, typed);
      return far === null ? [] : [{ command, far, at }];
    })
    .sort((a, b) => a.far - b.far || a.at - b.at)
    .slice(0, most)
    .map((one) => one.command);
}
