import { useId, useRef, useState } from "react";
import type { Ref } from "react";
import { Choices } from "./Choices";
import type { Choice } from "./Choices";

/** Choices that are shown at once. Typing finds the others. */
const MOST_SHOWN = 200;

/** A field that offers known values and accepts others. */
export function Combobox(props: {
  value: string;
  choices: readonly Choice[];
  onChoose: (value: string) => void;
  placeholder: string;
  label: string;
  testid: string;
  inputRef?: Ref<HTMLInputElement>;
  disabled?: boolean;
  className?: string;
  title?: string | undefined;
}) {
  // Null while closed: the current value is not a search text.
  const [typed, setTyped] = useState<string | null>(null);
  // -1: Enter takes the typed text.
  const [at, setAt] = useState(-1);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const open = typed !== null;
  const wanted = typed === props.value ? "" : (typed ?? "").toLowerCase();
  const shown = open
    ? props.choices
        .filter((choice) => choice.value.toLowerCase().includes(wanted))
        .slice(0, MOST_SHOWN)
    : [];
  const choose = (value: string) => {
    setTyped(null);
    if (value !== props.value) props.onChoose(value);
  };
  const begin = (field: HTMLInputElement) => {
    // The current value stays visible and is selected, so that typing replaces it.
    field.select();
    setTyped(props.value);
    setAt(props.choices.findIndex((choice) => choice.value === props.value));
  };
  const move = (to: number) => {
    const next = Math.max(0, Math.min(shown.length - 1, to));
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  return (
    <div className={`combobox ${props.className ?? ""}`}>
      <input
        ref={props.inputRef}
        role="combobox"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-autocomplete="list"
        aria-label={props.label}
        aria-activedescendant={open && shown[at] ? `${id}-${at}` : undefined}
        data-testid={props.testid}
        data-set={props.value !== ""}
        disabled={props.disabled}
        placeholder={props.placeholder}
        title={props.value || props.title}
        value={typed ?? props.value}
        spellCheck={false}
        autoComplete="off"
        onFocus={(event) => begin(event.currentTarget)}
        // After a choice, the field has the focus and its list is closed.
        onClick={(event) => !open && begin(event.currentTarget)}
        onBlur={() => setTyped(null)}
        onChange={(event) => {
          setTyped(event.target.value);
          // An emptied field means any value, not the first choice.
          setAt(event.target.value === "" ? -1 : 0);
        }}
        onKeyDown={(event) => {
          if (!open && /^(Arrow(Down|Up)|Enter)$/.test(event.key)) begin(event.currentTarget);
          else if (event.key === "ArrowDown") move(at + 1);
          else if (event.key === "ArrowUp") move(at - 1);
          else if (event.key === "Enter") choose(shown[at]?.value ?? typed?.trim() ?? "");
          else return;
          event.preventDefault();
        }}
      />
      {props.value !== "" && (
        <button
          type="button"
          className="clear"
          aria-label={`Any ${props.label.toLowerCase()}`}
          onClick={(event) => {
            // The button goes. From the keyboard (no clicks are counted), the field has the focus.
            if (event.detail === 0)
              event.currentTarget.parentElement?.querySelector("input")?.focus();
            props.onChoose("");
          }}
        >
          ×
        </button>
      )}
      {open && (
        <Choices
          id={id}
          listRef={list}
          label={props.label}
          choices={shown}
          at={at}
          empty="Nothing of that name yet"
          onHover={setAt}
          onChoose={({ value }) => {
            choose(value);
            (document.activeElement as HTMLElement | null)?.blur();
          }}
        />
      )}
    </div>
  );
}
