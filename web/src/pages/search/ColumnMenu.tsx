import { useEffect, useRef } from "react";
import type { KeyboardEvent } from "react";
import { setParams } from "../../app/router";
import { COLUMNS, columnsText, PARAM, toggled } from "./columns";
import type { ColumnId } from "./columns";

/** Which columns the list shows. */
export function ColumnMenu({ shown }: { shown: readonly ColumnId[] }) {
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) box.current?.removeAttribute("open");
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("focusin", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("focusin", close);
    };
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !box.current?.open) return;
    box.current.open = false;
    box.current.querySelector("summary")?.focus();
    event.preventDefault();
  };
  return (
    <details className="column-menu" ref={box} onKeyDown={onKeyDown}>
      <summary className="button tiny" data-testid="columns">
        Columns
      </summary>
      <fieldset>
        <legend className="unseen">Columns of the list</legend>
        {COLUMNS.map(([id, name]) => (
          <label key={id}>
            <input
              type="checkbox"
              checked={shown.includes(id)}
              data-testid={`column-${id}`}
              onChange={() => setParams({ [PARAM]: columnsText(toggled(shown, id)) })}
            />{" "}
            {name}
          </label>
        ))}
      </fieldset>
    </details>
  );
}
