/** Writes TraceQL, and says where the server found a fault in it. */
import { readCondition } from "./condition";
import { canonicalDuration } from "./duration";

/** A text as TraceQL spells it. */
export const quoted = (text: string): string =>
  `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;

/** A name of an attribute, quoted if it has characters that end a name. */
const named = (key: string): string => (/^[\w.\-/]+$/.test(key) ? `.${key}` : `.${quoted(key)}`);

/** The filters of the search page. */
export interface Built {
  service: string;
  operation: string;
  status: string;
  min: string;
  max: string;
  attributes: readonly string[];
}

/** The same search in TraceQL. What TraceQL cannot say is listed in `lost`. */
export function fromBuilder(built: Built): { query: string; lost: string[] } {
  const parts: string[] = [];
  const lost: string[] = [];
  if (built.service !== "") parts.push(`resource.service.name = ${quoted(built.service)}`);
  if (built.operation !== "") parts.push(`name = ${quoted(built.operation)}`);
  if (built.status === "error") parts.push("status = error");
  if (built.status === "ok") lost.push("no span of the trace failed");
  // Without a named span, the builder's durations are those of the trace.
  const duration =
    built.service === "" && built.operation === "" && built.attributes.length === 0
      ? "traceDuration"
      : "duration";
  const [min, max] = [canonicalDuration(built.min), canonicalDuration(built.max)];
  if (min !== null) parts.push(`${duration} >= ${min}`);
  if (max !== null) parts.push(`${duration} <= ${max}`);
  for (const text of built.attributes) {
    const read = readCondition(text);
    if ("problem" in read) continue;
    const { key, operator, value } = read;
    const name = named(key);
    const number = /^[+-]?(\d+\.?\d*|\.\d+)$/.test(value);
    if (operator === "exists") parts.push(`${name} != nil`);
    else if (operator === "absent") parts.push(`${name} = nil`);
    else if (operator === "~") {
      parts.push(`${name} =~ ${quoted(`(?i).*${value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}.*`)}`);
    } else parts.push(`${name} ${operator} ${number ? value : quoted(value)}`);
  }
  return { query: parts.length === 0 ? "{ }" : `{ ${parts.join(" && ")} }`, lost };
}

/** Where a query is wrong: lines and columns begin at 1. */
export interface Fault {
  line: number;
  column: number;
  said: string;
}

export function faultIn(message: string): Fault | null {
  const found = /line (\d+), column (\d+): ([\s\S]*)$/.exec(message);
  return found && { line: Number(found[1]), column: Number(found[2]), said: found[3]!.trim() };
}

/** The line with a fault, and a caret below the column. */
export function pointed(query: string, { line, column }: Fault): string {
  const text = query.split("\n")[line - 1] ?? "";
  return `${text}\n${" ".repeat(Math.max(0, column - 1))}^`;
}

/** What is being typed at the cursor. */
export type Completing =
  | { part: "name"; from: number; prefix: string }
  | { part: "value"; from: number; name: string; prefix: string };

export function completing(query: string, cursor: number): Completing | null {
  const before = query.slice(0, cursor);
  const value = /([\w.:\-/]+)\s*(?:=~|!=|!~|>=|<=|=|>|<)\s*("?)([^"{}()|&\s]*)$/.exec(before);
  if (value) {
    const written = value[2]! + value[3]!;
    return { part: "value", from: cursor - written.length, name: value[1]!, prefix: value[3]! };
  }
  // Inside a text, nothing is a name.
  if ((before.replaceAll('\\"', "").match(/"/g)?.length ?? 0) % 2 === 1) return null;
  const name = /(?:^|[{(,&|!\s])([A-Za-z.][\w.:\-/]*)?$/.exec(before);
  if (!name || !before.includes("{")) return null;
  const prefix = name[1] ?? "";
  return { part: "name", from: cursor - prefix.length, prefix };
}

/** The query with a further condition on its spans; null if it is more than one selection. */
export function narrowedBy(query: string, condition: string): string | null {
  const inside = /^\s*\{([^{}]*)\}\s*$/.exec(query)?.[1]?.trim();
  if (inside === undefined) return null;
  if (inside === "") return `{ ${condition} }`;
  return inside.includes("||")
    ? `{ (${inside}) && ${condition} }`
    : `{ ${inside} && ${condition} }`;
}

/** A value of a group as TraceQL spells it. */
export function literal(name: string, value: string): string {
  if (/^(span:)?(status|kind)$/.test(name)) return value;
  if (value === "nil" || value === "true" || value === "false") return value;
  return /^-?\d+(\.\d+)?$/.test(value) ? value : quoted(value);
}
