import { useId, useRef, useState } from "react";
import { useTraceQlNames, useTraceQlValues } from "../api/traceql";
import { useShortcuts } from "../app/shortcuts";
import type { Steps } from "../model/series";
import { completing, literal, pointed } from "../model/traceql";
import type { Fault } from "../model/traceql";
import { Choices } from "./Choices";
import type { Choice } from "./Choices";

const MOST_OFFERED = 30;

/** The field for a query, with completions, and with its fault where the server found it. */
export function QueryBox(props: {
  query: string;
  on: Steps;
  fault: Fault | null;
  onAsk: (query: string) => void;
}) {
  const [text, setText] = useState(props.query);
  const [cursor, setCursor] = useState<number | null>(null);
  const [at, setAt] = useState(-1);
  const [closed, setClosed] = useState(true);
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  useShortcuts({ "/": () => input.current?.focus() });
  const now = cursor === null || closed ? null : completing(text, cursor);
  const choices = useChoices(now, props.on);
  const open = now !== null && choices.length > 0;
  const fault = props.fault !== null && text === props.query ? props.fault : null;
  const complete = ({ value }: Choice) => {
    if (now === null || cursor === null) return;
    const written = now.part === "value" ? literal(now.name, value) : `${value} `;
    const rest = text.slice(cursor).replace(/^"/, "");
    setText(text.slice(0, now.from) + written + (rest === "" ? " " : rest));
    const place = now.from + written.length;
    setCursor(place);
    setAt(-1);
    setClosed(now.part === "value");
    requestAnimationFrame(() => input.current?.setSelectionRange(place, place));
  };
  return (
    <div className="combobox query-box">
      <input
        ref={input}
        role="combobox"
        aria-label="TraceQL query"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-autocomplete="list"
        aria-activedescendant={open && choices[at] ? `${id}-${at}` : undefined}
        aria-invalid={fault !== null}
        aria-describedby={fault === null ? undefined : `${id}-fault`}
        data-testid="query"
        placeholder='{ resource.service.name = "cart" && status = error }'
        value={text}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => {
          setText(event.target.value);
          setCursor(event.target.selectionStart);
          setClosed(false);
          setAt(-1);
        }}
        onSelect={(event) => setCursor(event.currentTarget.selectionStart)}
        onBlur={() => setClosed(true)}
        onKeyDown={(event) => {
          const last = choices.length - 1;
          if (event.key === "ArrowDown") {
            setClosed(false);
            setAt(Math.min(last, at + 1));
          } else if (event.key === "ArrowUp") setAt(Math.max(-1, at - 1));
          else if (event.key === "Escape" && open) setClosed(true);
          else if ((event.key === "Enter" || event.key === "Tab") && open && choices[at]) {
            complete(choices[at]);
          } else if (event.key === "Enter") {
            setClosed(true);
            props.onAsk(text.trim());
          } else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      {open && (
        <Choices
          id={id}
          listRef={list}
          label="Completions"
          choices={choices}
          at={at}
          empty=""
          onHover={setAt}
          onChoose={complete}
        />
      )}
      {fault !== null && (
        <div className="query-fault" role="alert" id={`${id}-fault`} data-testid="query-fault">
          <b>
            Line {fault.line}, column {fault.column}:
          </b>{" "}
          {fault.said}
          <pre aria-hidden="true">{pointed(props.query, fault)}</pre>
        </div>
      )}
    </div>
  );
}

function useChoices(now: ReturnType<typeof completing>, on: Steps): Choice[] {
  const names = useTraceQlNames(on, now?.part === "name");
  const value = now?.part === "value" ? now : null;
  const values = useTraceQlValues(value?.name ?? null, value?.prefix ?? "", on);
  if (now === null) return [];
  if (now.part === "value") {
    return (values.data ?? []).map((one) => ({ value: one.value, note: one.type }));
  }
  const begun = now.prefix.toLowerCase();
  return (names.data ?? [])
    .filter((name) => name.toLowerCase().includes(begun) && name !== now.prefix)
    .sort((a, b) => Number(b.startsWith(begun)) - Number(a.startsWith(begun)))
    .slice(0, MOST_OFFERED)
    .map((name) => ({ value: name }));
}
