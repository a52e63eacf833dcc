/** Which zone times are told in: this machine's, or UTC. The same on every page. */
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
