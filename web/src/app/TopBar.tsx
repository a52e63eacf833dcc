import { useRef, useState } from "react";
import { useStatus } from "../api/queries";
import { AnalysisMenu } from "./AnalysisMenu";
import { Help } from "./Help";
import { Logo } from "./Logo";
import { Link, navigate, usePlace } from "./router";
import { PAGES } from "./pages";
import { useShortcuts } from "./shortcuts";
import { toggleTheme, useTheme } from "./theme";
import { zoneName } from "../model/time";
import { toggleZone, useZone } from "./zone";

/** Finds a trace or span id in pasted text: an id, a link or a log line. */
export function idIn(text: string): string | null {
  return (
    /(?<![0-9a-f])([0-9a-f]{32}|[0-9a-f]{16})(?![0-9a-f])/i.exec(text)?.[0].toLowerCase() ?? null
  );
}

/** The page of a trace belongs to the search, and that of a service to the overview. */
function isCurrent(to: string, path: string): boolean {
  if (to === "/search" && path.startsWith("/trace/")) return true;
  return to === path || (to === "/" && path.startsWith("/service/"));
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
      <Link to="/" className="wordmark" aria-label="Spanwise: overview">
        <Logo />
        Spanwise
      </Link>
      <nav aria-label="Pages">
        {PAGES.flatMap((page, at) => {
          if (!page.menu) return [];
          // One entry for all analyses, where the first of them is.
          if (page.analysis !== undefined) {
            const first = PAGES.findIndex((one) => one.analysis !== undefined);
            return at === first ? [<AnalysisMenu key="analysis" path={path} />] : [];
          }
          const [to, name] = page.menu;
          return [
            <Link key={to} to={to} aria-current={isCurrent(to, path) ? "page" : undefined}>
              {name}
            </Link>,
          ];
        })}
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
          aria-describedby={wrong ? "jump-problem" : undefined}
          spellCheck={false}
          autoComplete="off"
        />
        {wrong && (
          <p className="problem" id="jump-problem" role="alert">
            No id in this text: 32 hexadecimal digits of a trace, or 16 of a span.
          </p>
        )}
      </form>
      <Health />
      <div className="tools">
        <ZoneButton />
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

function ZoneButton() {
  const zone = useZone();
  const local = zoneName("local", Date.now());
  return (
    <button
      type="button"
      className="button plain zone"
      onClick={toggleZone}
      title={
        zone === "utc" ? `Times are UTC. Show local time (${local})` : "Times are local. Show UTC"
      }
      data-testid="zone"
      data-zone={zone}
    >
      {zone === "utc" ? "UTC" : "Local"}
      {zone === "local" && <span className="quiet">{local}</span>}
    </button>
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
  const attention = !status.isError && status.data?.attention === true;
  const agent = status.data?.agent;
  const reason = agent?.state === "off" ? agent.reason : undefined;
  const said = attention ? "Needs attention" : HEALTH[state];
  return (
    <Link
      to="/status"
      className="health"
      data-state={state}
      data-attention={attention}
      aria-label={`Status: ${said}`}
      title={attention ? "Something was lost or is broken: the status says what" : reason}
      data-testid="health"
    >
      <span className="dot" />
      <span>{said}</span>
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
