import { useEffect } from "react";

/** Sets the title of the tab: the page, then the program. */
export function useTitle(...parts: readonly (string | undefined)[]): void {
  const title = [...parts.filter(Boolean), "Spanwise"].join(" — ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}
