import { useEffect } from "react";

/** What the tab is called: the page, then the program. */
export function useTitle(...parts: readonly (string | undefined)[]): void {
  const title = [...parts.filter(Boolean), "Spanwise"].join(" — ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}
