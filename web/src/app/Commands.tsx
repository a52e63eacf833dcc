import { useEffect, useRef, useState } from "react";
import { useServices } from "../api/queries";
import { fitting } from "../model/commands";
import type { Command } from "../model/commands";
import { PAGES } from "./pages";
import { navigate } from "./router";
import { toggleTheme } from "./theme";
import { idIn } from "./TopBar";
import { toggleZone } from "./zone";

const MOST_SHOWN = 12;

/** The command palette: pages, services and actions by name; Ctrl+K opens it. */
export function Commands() {
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const services = useServices();
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setTyped("");
      setAt(0);
      setOpen((now) => !now);
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
    if (!open && dialog.current?.open) dialog.current.close();
  }, [open]);
  const id = idIn(typed);
  const all: Command[] = [
    ...PAGES.flatMap(({ menu, analysis }): Command[] =>
      menu
        ? [{ name: menu[1], note: analysis === undefined ? "page" : "analysis", to: menu[0] }]
        : [],
    ),
    { name: "View a file of spans", note: "action", to: "/trace/file" },
    { name: "Search with TraceQL", note: "action", to: "/search?q=%7B+%7D" },
    { name: "Traces with errors", note: "search", to: "/search?status=error" },
    { name: "Slowest traces", note: "search", to: "/search?sort=slowest" },
    { name: "Light or dark theme", note: "action", run: toggleTheme },
    { name: "UTC or local time", note: "action", run: toggleZone },
    ...(services.data?.services ?? []).flatMap(({ name }): Command[] => [
      { name, note: "service", to: `/service/${encodeURIComponent(name)}` },
      {
        name: `${name}: traces`,
        note: "search",
        to: `/search?service=${encodeURIComponent(name)}`,
      },
    ]),
  ];
  const shown: Command[] =
    id !== null
      ? [{ name: `Trace ${id}`, note: "trace", to: `/trace/${id}` }]
      : fitting(all, typed, MOST_SHOWN);
  const run = (command: Command | undefined) => {
    if (!command) return;
    setOpen(false);
    if (command.to !== undefined) navigate(command.to);
    command.run?.();
  };
  return (
    <dialog
      ref={dialog}
      className="commands"
      aria-label="Commands"
      data-testid="commands"
      onClose={() => setOpen(false)}
      onClick={(event) => event.target === dialog.current && setOpen(false)}
    >
      {open && (
        <>
          <input
            autoFocus
            role="combobox"
            aria-label="Page, service or action"
            aria-expanded="true"
            aria-controls="command-list"
            aria-activedescendant={shown[at] ? `command-${at}` : undefined}
            placeholder="Page, service, action, or trace id"
            value={typed}
            spellCheck={false}
            autoComplete="off"
            onChange={(event) => {
              setTyped(event.target.value);
              setAt(0);
            }}
            onKeyDown={(event) => {
              if (event.key === "ArrowDown") setAt(Math.min(shown.length - 1, at + 1));
              else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
              else if (event.key === "Enter") run(shown[at]);
              else return;
              event.preventDefault();
            }}
          />
          <ul role="listbox" id="command-list" aria-label="Commands">
            {shown.map((command, index) => (
              <li
                key={`${command.note} ${command.name}`}
                id={`command-${index}`}
                role="option"
                aria-selected={index === at}
                onMouseEnter={() => setAt(index)}
                onClick={() => run(command)}
              >
                <span className="cut">{command.name}</span>
                <span className="label">{command.note}</span>
              </li>
            ))}
            {shown.length === 0 && (
              <li role="option" aria-selected="false" aria-disabled="true" className="quiet">
                Nothing of this name
              </li>
            )}
          </ul>
        </>
      )}
    </dialog>
  );
}
