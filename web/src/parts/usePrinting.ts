import { useEffect, useState } from "react";
import { flushSync } from "react-dom";

/** Whether the page is being printed. What it then shows is there before the paper is made. */
export function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const media = window.matchMedia("print");
    const set = (value: boolean) => flushSync(() => setPrinting(value));
    const follow = () => set(media.matches);
    const before = () => set(true);
    const after = () => set(media.matches);
    media.addEventListener("change", follow);
    window.addEventListener("beforeprint", before);
    window.addEventListener("afterprint", after);
    return () => {
      media.removeEventListener("change", follow);
      window.removeEventListener("beforeprint", before);
      window.removeEventListener("afterprint", after);
    };
  }, []);
  return printing;
}
