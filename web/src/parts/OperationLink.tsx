import type { OperationName } from "../api/types";
import { Link } from "../app/router";
import { Service } from "./Service";
import { withRange } from "./range";
import type { PageRange } from "./range";

/** An operation, with a link to who calls it. */
export function OperationLink({ of, range }: { of: OperationName; range: PageRange }) {
  const more = { service: of.service, operation: of.operation };
  return (
    <Link to={withRange("/sources", range, more)} title={`${of.service} ${of.operation}`}>
      <Service name={of.service} /> <span className="cut">{of.operation}</span>
    </Link>
  );
}

export const sameOperation = (a: OperationName, b: OperationName): boolean =>
  a.service === b.service && a.operation === b.operation;

/** A key for an operation: no name has a line break. */
export const operationKey = (of: OperationName): string => `${of.service}\n${of.operation}`;
