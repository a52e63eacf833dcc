import { useId, useRef, useState } from "react";
import type { RefObject } from "react";
import { useAttributeKeys, useAttributeValues } from "../../api/queries";
import type { Where } from "../../api/queries";
import { setParams } from "../../app/router";
import { GRAMMAR, readCondition, shownCondition, spelled, typing } from "../../model/condition";
import { formatCount } from "../../model/number";
import { Choices } from "../../parts/Choices";
import type { Choice } from "../../parts/Choices";

const ON = { span: "", resource: "resource · ", label: "label · " } as const;

/** Conditions on attributes: the current ones, and a field for another. */
export function AttributeField(props: { attributes: readonly string[]; where: Where }) {
  const { attributes } = props;
  const field = useRef<HTMLInputElement>(null);
  const set = (next: readonly string[]) => setParams({ attribute: [...new Set(next)] }, "push");
  return (
    <div className={attributes.length > 0 ? "attributes some" : "attributes"}>
      {attributes.map((one) => {
        const read = readCondition(one);
        const wrong = "problem" in read;
        return (
          <span
            className={`pill${wrong ? " wrong" : ""}`}
            key={one}
            title={wrong ? `Left out of the search: ${read.problem}` : one}
            data-testid="condition"
          >
            <span className="cut">{shownCondition(one)}</span>
            <button
              type="button"
              className="button tiny plain"
              aria-label={`Remove ${shownCondition(one)}`}
              onClick={(event) => {
                // The button goes. From the keyboard (no clicks are counted), the field has the
                // focus.
                if (event.detail === 0) field.current?.focus();
                set(attributes.filter((other) => other !== one));
              }}
            >
              ×
            </button>
          </span>
        );
      })}
      <NewCondition input={field} where={props.where} onAdd={(one) => set([...attributes, one])} />
    </div>
  );
}

function NewCondition(props: {
  input: RefObject<HTMLInputElement | null>;
  where: Where;
  onAdd: (condition: string) => void;
}) {
  const { input } = props;
  const [typed, setTyped] = useState("");
  const [focused, setFocused] = useState(false);
  const [at, setAt] = useState(-1);
  const [problem, setProblem] = useState<string | null>(null);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const choices = useCompletions(props.where, typed, focused);
  const open = focused && choices !== null;
  const write = (text: string) => {
    setTyped(text);
    setAt(-1);
    setProblem(null);
  };
  const add = (text: string) => {
    const read = readCondition(text);
    if ("problem" in read) {
      setProblem(read.problem);
      return;
    }
    write("");
    props.onAdd(spelled(read));
  };
  /**
   * A chosen key needs a value next. A chosen value, or a key after `!`, completes the
   * condition.
   */
  const complete = ({ value }: Choice) => {
    const now = typing(typed);
    if (now === null) return;
    if (now.part === "value" || now.before === "!") add(now.before + value);
    else write(`${value}=`);
    input.current?.focus();
  };
  const move = (to: number) => {
    const next = Math.max(-1, Math.min((choices?.length ?? 0) - 1, to));
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  const enter = () => {
    const chosen = choices?.[at];
    if (chosen) return complete(chosen);
    const now = typing(typed);
    // Enter completes a partial key. A full key alone is the condition that the attribute exists.
    const begun = now?.part === "key" && now.prefix !== "" ? now.prefix : null;
    const first = choices?.[0];
    if (begun !== null && first && !choices.some(({ value }) => value === begun)) complete(first);
    else add(typed);
  };
  return (
    <div className="combobox condition">
      <input
        ref={input}
        role="combobox"
        aria-label="Attribute condition"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-autocomplete="list"
        aria-activedescendant={open && choices[at] ? `${id}-${at}` : undefined}
        aria-invalid={problem !== null}
        aria-describedby={problem === null ? undefined : `${id}-problem`}
        data-testid="attribute"
        title={`A condition on an attribute: ${GRAMMAR}. Enter adds it.`}
        placeholder="attribute, = != > < ~ …"
        value={typed}
        spellCheck={false}
        autoComplete="off"
        onFocus={() => setFocused(true)}
        onChange={(event) => write(event.target.value)}
        onBlur={() => {
          setFocused(false);
          // A complete condition is added. A key alone may be incomplete, so it is not.
          if (typing(typed)?.part !== "key" && typed.trim() !== "") add(typed);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") move(at + 1);
          else if (event.key === "ArrowUp") move(at - 1);
          else if (event.key === "Enter") {
            if (typed.trim() !== "") enter();
          } else return;
          event.preventDefault();
        }}
      />
      {problem !== null && (
        <p className="problem" id={`${id}-problem`} role="alert" data-testid="condition-problem">
          Not understood. {problem}
        </p>
      )}
      {open && problem === null && (
        <Choices
          id={id}
          listRef={list}
          label="Completions"
          choices={choices}
          at={at}
          empty={typing(typed)?.part === "value" ? "No such value seen" : "No such attribute seen"}
          onHover={setAt}
          onChoose={complete}
        />
      )}
    </div>
  );
}

/** Completions, or null if none are known yet or none apply. */
function useCompletions(where: Where, typed: string, active: boolean): Choice[] | null {
  const now = active ? typing(typed) : null;
  const key = now?.part === "value" ? now.key : null;
  const keys = useAttributeKeys(where, now?.part === "key" ? now.prefix : null);
  const values = useAttributeValues(where, key, now?.prefix ?? "");
  if (now === null) return null;
  if (now.part === "value") {
    return (
      values.data?.values.map((one) => ({ value: one.value, note: formatCount(one.spans) })) ?? null
    );
  }
  // Results for a shorter prefix are shown until the new ones arrive.
  const begun = now.prefix.toLowerCase();
  const fitting = keys.isPlaceholderData
    ? keys.data?.keys.filter(({ key }) => key.toLowerCase().startsWith(begun))
    : keys.data?.keys;
  return (
    fitting?.map((one) => ({ value: one.key, note: ON[one.on] + formatCount(one.spans) })) ?? null
  );
}
