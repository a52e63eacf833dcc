import type { ReactNode } from "react";
import { ApiError } from "../api/client";
import { Prose } from "./Prose";

/** The content of a page that has nothing to show: why, and what to do. */
export function Blank(props: {
  title: string;
  busy?: boolean;
  /** Whether this is the whole page, so that its title is the page's heading. */
  whole?: boolean;
  children?: ReactNode;
}) {
  const Title = props.whole ? "h1" : "h2";
  return (
    <div className="blank" role="status" data-testid="blank">
      {props.busy && <div className="spinner" />}
      <Title>{props.title}</Title>
      {props.children}
    </div>
  );
}

/** An error of the server or of the browser. */
export function Failure({ error }: { error: Error }) {
  return (
    <div className="notice error" role="alert" data-testid="failure">
      <div>
        <b>{error instanceof ApiError ? error.title : "Something broke in this page"}</b>
        <div>
          <Prose text={error.message} />
        </div>
      </div>
    </div>
  );
}
