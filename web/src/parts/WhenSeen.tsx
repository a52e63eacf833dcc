import { useEffect, useRef, useState } from "react";
import type { ReactNode } from "react";

/** Content that costs the server much: it is made when it comes into view. */
export function WhenSeen({ label, children }: { label: string; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (seen || !box.current) return;
    const watch = new IntersectionObserver(
      (entries) => entries.some((entry) => entry.isIntersecting) && setSeen(true),
      { rootMargin: "120px" },
    );
    watch.observe(box.current);
    return () => watch.disconnect();
  }, [seen]);
  return seen ? (
    <>{children}</>
  ) : (
    <div ref={box} className="when-seen quiet" data-testid="when-seen">
      {label}
    </div>
  );
}
