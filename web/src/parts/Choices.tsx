import type { ReactNode, Ref } from "react";

export interface Choice {
  value: string;
  /** Shown before the name. */
  mark?: ReactNode;
  /** Shown after the name, in a quiet colour. */
  note?: string;
}

/** The list below a field. `at` is the choice that Enter takes, or -1. */
export function Choices(props: {
  id: string;
  label: string;
  choices: readonly Choice[];
  at: number;
  empty: string;
  listRef?: Ref<HTMLUListElement>;
  onHover: (at: number) => void;
  onChoose: (choice: Choice) => void;
}) {
  return (
    <ul
      role="listbox"
      id={props.id}
      ref={props.listRef}
      aria-label={props.label}
      className="choices"
    >
      {props.choices.length === 0 && (
        <li role="option" aria-disabled="true" aria-selected="false" className="quiet">
          {props.empty}
        </li>
      )}
      {props.choices.map((choice, index) => (
        <li
          key={choice.value}
          id={`${props.id}-${index}`}
          role="option"
          aria-selected={index === props.at}
          data-value={choice.value}
          onMouseEnter={() => props.onHover(index)}
          // Runs before the field loses its focus, which closes the list.
          onMouseDown={(event) => {
            event.preventDefault();
            props.onChoose(choice);
          }}
        >
          {choice.mark}
          <span className="cut">{choice.value}</span>
          {choice.note && <span className="label">{choice.note}</span>}
        </li>
      ))}
    </ul>
  );
}
