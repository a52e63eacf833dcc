import type { TraceSummary } from "../../api/types";

/** The root of a trace of the list; a trace without spans has none. */
export const rootOf = ({ root }: TraceSummary): { service: string; operation: string } =>
  root ?? { service: "", operation: "" };
