import type { TraceSummary } from "../../api/types";

/** The root of a listed trace. A trace without spans has none. */
export const rootOf = ({ root }: TraceSummary): { service: string; operation: string } =>
  root ?? { service: "", operation: "" };
