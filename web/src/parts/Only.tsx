import { setParams } from "../app/router";

/** A limit of the page, which a click takes away. */
export function Only(props: { what: string; value: string; param: string }) {
  return (
    <button
      type="button"
      className="button"
      data-testid={`only-${props.param}`}
      onClick={() => setParams({ [props.param]: null }, "push")}
    >
      Only {props.what} {props.value} <span aria-hidden="true">×</span>
      <span className="unseen">: show all</span>
    </button>
  );
}
