import { useId, useRef, useState } from "react";
import type { ReactNode, Ref } from "react";

export interface Choice {
  value: string;
  /** Shown before the name. */
  mark?: ReactNode;
  /** Shown after it, quietly. */
  note?: string;
}

/** A field that offers what is known, and takes what is not. */
export function Combobox(props: {
  value: string;
  choices: readonly Choice[];
  onChoose: (value: string) => void;
  placeholder: string;
  label: string;
  testid: string;
  inputRef?: Ref<HTMLInputElement>;
  disabled?: boolean;
}) {
  const [typed, setTyped] = useState<string | null>(null);
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const open = typed !== null;
  const wanted = (typed ?? "").toLowerCase();
  const shown = props.choices
    .filter((choice) => choice.value.toLowerCase().includes(wanted))
    .slice(0, 200);
  const choose = (value: string) => {
    setTyped(null);
    if (value !== props.value) props.onChoose(value);
  };
  const move = (to: number) => {
    const next = Math.max(0, Math.min(shown.length - 1, to));
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  return (
    <div className="combobox">
      <input
        ref={props.inputRef}
        role="combobox"
        aria-expanded={open}
        aria-controls={id}
        aria-label={props.label}
        aria-activedescendant={open && shown[at] ? `${id}-${at}` : undefined}
        data-testid={props.testid}
        disabled={props.disabled}
        placeholder={open && props.value ? props.value : props.placeholder}
        title={props.value}
        value={typed ?? props.value}
        spellCheck={false}
        autoComplete="off"
        onFocus={() => {
          setTyped("");
          setAt(
            Math.max(
              0,
              props.choices.findIndex((choice) => choice.value === props.value),
            ),
          );
        }}
        onBlur={() => setTyped(null)}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") move(at + 1);
          else if (event.key === "ArrowUp") move(at - 1);
          else if (event.key === "Enter") {
            choose(shown[at]?.value ?? typed?.trim() ?? "");
            event.currentTarget.blur();
          } else return;
          event.preventDefault();
        }}
      />
      {props.value !== "" && !open && (
        <button
          type="button"
          className="clear"
          aria-label={`Any ${props.label.toLowerCase()}`}
          onClick={() => props.onChoose("")}
        >
          ×
        </button>
      )}
      {open && (
        <ul role="listbox" id={id} ref={list} aria-label={props.label}>
          {shown.length === 0 && <li className="quiet">Nothing of that name yet</li>}
          {shown.map((choice, index) => (
            <li
              key={choice.value}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === at}
              data-value={choice.value}
              onMouseEnter={() => setAt(index)}
              // Before the field loses its focus, which closes the list.
              onMouseDown={(event) => {
                event.preventDefault();
                choose(choice.value);
                (document.activeElement as HTMLElement | null)?.blur();
              }}
            >
              {choice.mark}
              <span className="cut">{choice.value}</span>
              {choice.note && <span className="label">{choice.note}</span>}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
