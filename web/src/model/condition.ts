/** Conditions on attributes, as users type them and as the API takes them. */

export const OPERATORS = ["=", "!=", ">", ">=", "<", "<=", "~"] as const;
export type Operator = (typeof OPERATORS)[number] | "exists" | "absent";

export interface Condition {
  key: string;
  operator: Operator;
  /** Empty if the operator takes no value. */
  value: string;
}

/** The syntax in one line. */
export const GRAMMAR =
  "key=value, !=, >, >=, <, <=, key~text (contains), key (exists), !key (absent)";

interface Split {
  absent: boolean;
  key: string;
  operator: string;
  value: string;
}

function split(text: string): Split {
  const absent = /^!(?!=)/.test(text);
  const [, key = "", operator = "", value = ""] =
    /^([^=!<>~]*)(==|=~|=>|=<|!=|!~|>=|<=|<>|[=<>~!]|$)(.*)$/s.exec(absent ? text.slice(1) : text)!;
  return { absent, key: key.trim(), operator, value: value.trim() };
}

/** Operators of other query languages, and their names here. */
const ELSEWHERE: Record<string, string> = {
  "==": "=",
  "=~": "~",
  "=>": ">=",
  "=<": "<=",
  "<>": "!=",
};

/** The condition, or why the text is not one. */
export function readCondition(text: string): Condition | { problem: string } {
  const { absent, key, operator, value } = split(text.trim());
  const problem = (said: string) => ({ problem: said });
  if (key === "") {
    return problem(
      operator === ""
        ? "Nothing is named."
        : `Before “${operator}” stands the name of an attribute.`,
    );
  }
  // A sentence is not a condition. A name that contains a space needs an operator.
  if (operator === "" && /\s/.test(key)) {
    return problem(`“${key}” is no name of an attribute. Write ${GRAMMAR}.`);
  }
  if (absent) {
    return operator === ""
      ? { key, operator: "absent", value: "" }
      : problem(`“!${key}” alone means absent. Unequal is written ${key}!=value.`);
  }
  if (operator === "") return { key, operator: "exists", value: "" };
  const right = ELSEWHERE[operator];
  if (right) return problem(`“${operator}” is written “${right}” here: ${key}${right}${value}`);
  if (!OPERATORS.includes(operator as (typeof OPERATORS)[number])) {
    return problem(`“${operator}” is not known here. Write ${GRAMMAR}.`);
  }
  if (value === "" && operator !== "=" && operator !== "!=") {
    return problem(`A value is missing after “${operator}”.`);
  }
  if (/[<>]/.test(operator) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value)) {
    return problem(`“${operator}” compares with a number; “${value}” is none.`);
  }
  return { key, operator: operator as Operator, value };
}

/** The condition as the API and the address spell it. */
export function spelled({ key, operator, value }: Condition): string {
  if (operator === "exists") return key;
  if (operator === "absent") return `!${key}`;
  return `${key}${operator}${value}`;
}

/** The condition as it is displayed. Text that is not a condition is displayed unchanged. */
export function shownCondition(text: string): string {
  const read = readCondition(text);
  if ("problem" in read) return text;
  const { key, operator, value } = read;
  if (operator === "exists") return `${key} exists`;
  if (operator === "absent") return `no ${key}`;
  if (operator === "~") return `${key} contains ${value}`;
  if (value === "") return `${key} ${operator} (empty)`;
  return `${key} ${operator} ${value}`;
}

/**
 * What the user is typing: the beginning of a key, or of a value. Null if nothing can be
 * completed.
 */
export type Typing =
  | { part: "key"; before: string; prefix: string }
  | { part: "value"; before: string; key: string; prefix: string };

export function typing(text: string): Typing | null {
  const { absent, key, operator, value } = split(text.trimStart());
  if (operator === "") return { part: "key", before: absent ? "!" : "", prefix: key };
  if (absent || key === "" || !["=", "!=", "~"].includes(operator)) return null;
  return { part: "value", before: `${key}${operator}`, key, prefix: value };
}
