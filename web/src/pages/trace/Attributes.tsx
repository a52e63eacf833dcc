import type { Attribute } from "../../api/types";
import { Copy } from "../../parts/Copy";

/** Longer texts are shown in a box that scrolls. */
const LONG = 400;

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return JSON.stringify(value) ?? String(value);
}

export function AttributeTable({ attributes }: { attributes: readonly Attribute[] }) {
  if (attributes.length === 0) return null;
  return (
    <table className="pairs">
      <tbody>
        {attributes.map((one, at) => (
          <tr key={`${one.key} ${at}`} data-key={one.key}>
            <th scope="row">{one.key}</th>
            <td>
              <Copy text={textOf(one.value)} />
              <Value text={textOf(one.value)} />
              {one.type !== "string" && <span className="type">{one.type}</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Pairs({ pairs }: { pairs: readonly (readonly [string, unknown])[] }) {
  const given = pairs.filter(([, value]) => value !== undefined && value !== null);
  if (given.length === 0) return null;
  return (
    <table className="pairs">
      <tbody>
        {given.map(([key, value]) => (
          <tr key={key} data-key={key}>
            <th scope="row">{key}</th>
            <td>
              <Copy text={textOf(value)} />
              <Value text={textOf(value)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Value({ text }: { text: string }) {
  return text.length > LONG || text.includes("\n") ? <span className="long">{text}</span> : text;
}

/** A resource as pairs. It may arrive as an object or as JSON text. */
export function resourceOf(
  resource: string | Record<string, unknown> | undefined,
): [string, unknown][] {
  if (resource === undefined) return [];
  if (typeof resource !== "string") return Object.entries(resource);
  try {
    const parsed: unknown = JSON.parse(resource);
    return typeof parsed === "object" && parsed !== null ? Object.entries(parsed) : [];
  } catch {
    return [["resource", resource]];
  }
}
