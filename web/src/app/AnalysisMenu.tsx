import { useEffect, useRef, useState } from "react";
import type { KeyboardEvent } from "react";
import { PAGES } from "./pages";
import { Link } from "./router";

/** The pages that answer questions over many traces, each with when to use it. */
export function AnalysisMenu({ path }: { path: string }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const entries = PAGES.flatMap(({ menu, analysis }) =>
    menu && analysis !== undefined ? [{ to: menu[0], name: menu[1], when: analysis }] : [],
  );
  const isHere = (to: string) => path === to || path.startsWith(`${to}/`);
  const here = entries.some(({ to }) => isHere(to));
  useEffect(() => setOpen(false), [path]);
  useEffect(() => {
    if (!open) return;
    const close = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("focusin", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("focusin", close);
    };
  }, [open]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && open) {
      setOpen(false);
      button.current?.focus();
      event.preventDefault();
      return;
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setOpen(true);
    // The list is there after the next frame if it was closed.
    requestAnimationFrame(() => {
      const links = [...(box.current?.querySelectorAll<HTMLElement>("a") ?? [])];
      const at = links.indexOf(document.activeElement as HTMLElement);
      const next = at < 0 && step < 0 ? links.length - 1 : at + step;
      links[Math.max(0, Math.min(links.length - 1, next))]?.focus();
    });
  };
  return (
    <div className="analysis-menu" ref={box} onKeyDown={onKeyDown}>
      <button
        ref={button}
        type="button"
        aria-expanded={open}
        aria-controls="analysis-pages"
        data-current={here}
        data-testid="analysis-menu"
        onClick={() => setOpen(!open)}
      >
        Analysis <span aria-hidden="true">▾</span>
      </button>
      {open && (
        <ul id="analysis-pages" data-testid="analysis-pages">
          {entries.map(({ to, name, when }) => (
            <li key={to}>
              <Link
                to={to}
                aria-current={isHere(to) ? "page" : undefined}
                onClick={() => {
                  // The link goes with the list.
                  button.current?.focus();
                  setOpen(false);
                }}
              >
                <b>{name}</b>
                <span className="quiet">{when}</span>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
