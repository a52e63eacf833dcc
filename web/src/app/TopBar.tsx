import { useRef, useState } from "react";
import { useStatus } from "../api/queries";
import { Help } from "./Help";
import { Logo } from "./Logo";
import { Link, navigate, usePlace } from "./router";
import { useShortcuts } from "./shortcuts";
import { toggleTheme, useTheme } from "./theme";

const PAGES = [
  ["/", "Search"],
  ["/map", "Map"],
  ["/status", "Status"],
] as const;

/** A trace or span id out of whatever was pasted: an id, a link, a log line. */
export function idIn(text: string): string | null {
  return /[0-9a-f]{32}|[0-9a-f]{16}/i.exec(text.trim())?.[0].toLowerCase() ?? null;
}

export function TopBar() {
  const { path } = usePlace();
  const theme = useTheme();
  const [help, setHelp] = useState(false);
  const [jump, setJump] = useState("");
  const [wrong, setWrong] = useState(false);
  const jumpBox = useRef<HTMLInputElement>(null);
  useShortcuts({ "?": () => setHelp(true), g: () => jumpBox.current?.focus() });
  return (
    <header className="topbar">
      <Link to="/" className="wordmark" aria-label="Spanwise: search">
        <Logo />
        Spanwise
      </Link>
      <nav aria-label="Pages">
        {PAGES.map(([to, name]) => (
          <Link
            key={to}
            to={to}
            aria-current={
              (to === "/" ? path === "/" || path.startsWith("/trace/") : path === to)
                ? "page"
                : undefined
            }
          >
            {name}
          </Link>
        ))}
      </nav>
      <form
        className="jump"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          const id = idIn(jump);
          setWrong(id === null);
          if (id === null) return;
          setJump("");
          jumpBox.current?.blur();
          navigate(`/trace/${id}`);
        }}
      >
        <input
          ref={jumpBox}
          value={jump}
          onChange={(event) => {
            setJump(event.target.value);
            setWrong(false);
          }}
          placeholder="Go to trace or span id"
          aria-label="Trace or span id"
          aria-invalid={wrong}
          title={wrong ? "No id in this text: 32 or 16 hexadecimal digits are needed" : undefined}
          spellCheck={false}
          autoComplete="off"
        />
      </form>
      <Health />
      <div className="tools">
        <button
          className="button plain icon"
          onClick={toggleTheme}
          aria-label={theme === "dark" ? "Light theme" : "Dark theme"}
          title={theme === "dark" ? "Light theme" : "Dark theme"}
          data-testid="theme"
        >
          <ThemeIcon dark={theme === "dark"} />
        </button>
        <button
          className="button plain icon"
          onClick={() => setHelp(true)}
          aria-label="Help"
          title="Help (?)"
        >
          ?
        </button>
      </div>
      <Help open={help} onClose={() => setHelp(false)} />
    </header>
  );
}

const HEALTH = {
  running: "Agent running",
  starting: "Agent starting",
  off: "Agent off",
  remote: "Agents remote",
  unreachable: "Server away",
  unknown: "…",
} as const;

function Health() {
  const status = useStatus();
  const state = status.isError ? "unreachable" : (status.data?.agent.state ?? "unknown");
  const reason = status.data?.agent.reason ?? undefined;
  return (
    <Link to="/status" className="health" data-state={state} title={reason} data-testid="health">
      <span className="dot" />
      <span>{HEALTH[state]}</span>
    </Link>
  );
}

function ThemeIcon({ dark }: { dark: boolean }) {
  return dark ? (
    <svg
      width="15"
      height="15"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
    >
      <circle cx="8" cy="8" r="3" />
      <path d="M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13" />
    </svg>
  ) : (
    <svg
      width="15"
      height="15"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinejoin="round"
    >
      <path d="M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z" />
    </svg>
  );
}
