import { useEffect, useState } from "react";

/** The current time in milliseconds, updated at an interval. */
export function useNow(everyMilliseconds = 1000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMilliseconds);
    return () => clearInterval(timer);
  }, [everyMilliseconds]);
  return now;
}
