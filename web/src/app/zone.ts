/** The time zone in which times are shown: this machine's, or UTC. All pages use the same zone. */
import type { Zone } from "../model/time";
import { Followed, recalled, remembered } from "./store";

const KEY = "spanwise.zone";

const zone = new Followed<Zone>(recalled(KEY) === "utc" ? "utc" : "local");

export const useZone = (): Zone => zone.use();

export function toggleZone(): void {
  const next: Zone = zone.get() === "utc" ? "local" : "utc";
  zone.set(next);
  remembered(KEY, next === "utc" ? "utc" : null);
}
