import { memo } from "react";
import { useServiceStyle } from "../../app/palette";
import { formatDuration, nano } from "../../model/duration";
import { certainty, explain, plainText } from "../../model/evidence";
import { plural } from "../../model/number";
import { outcome } from "../../model/outcome";
import { failedRow, isElsewhere } from "../../model/tree";
import type { Segment } from "../../model/criticalPath";
import type { Row, Tree } from "../../model/tree";
import { CaptureTag } from "../../parts/CaptureTag";

export const LINE_HEIGHT = 26;
/** Indentation guides that are drawn. Deeper levels draw only the innermost ones. */
const MOST_GUIDES = 40;

export interface LineProps {
  tree: Tree;
  rows: readonly Row[];
  at: number;
  top: number;
  /** Pixels of indentation for each level. */
  indent: number;
  /** Nanoseconds from the trace's start at the left and right edges. */
  from: number;
  to: number;
  selected: boolean;
  /** The parts of the critical path by span, if it is drawn. */
  path: ReadonlyMap<string, readonly Segment[]> | null;
  onSelect: (id: string) => void;
  onToggle: (id: string) => void;
}

/** One line of the waterfall: a span, or both sides of a call. */
export const Line = memo(function Line(props: LineProps) {
  const row = props.rows[props.at]!;
  const { span, server } = row;
  const serviceStyle = useServiceStyle();
  const shown = server ?? span;
  const failed = failedRow(row);
  // The side that answered knows the outcome better.
  const ended = [server, span].flatMap((side) => (side ? [outcome(side)] : []));
  const { code, text } = ended.find((one) => one.failed) ?? ended[0]!;
  const unknown = !failed && ended.some((one) => one.unknown);
  const doubt = certainty(span) === "ambiguous";
  const parent = span.parent === null ? null : (props.tree.spans.get(span.parent) ?? null);
  return (
    <div
      id={`span-${span.span_id}`}
      className={`row${failed ? " failed" : ""}${row.matched ? "" : " dim"}`}
      style={{ ...serviceStyle(shown.service), top: props.top }}
      role="treeitem"
      aria-level={row.level + 1}
      aria-selected={props.selected}
      aria-expanded={row.children > 0 ? !row.closed : undefined}
      data-testid="span"
      data-span-id={span.span_id}
      data-parent-id={row.parent < 0 ? "" : props.rows[row.parent]!.span.span_id}
      data-service={shown.service}
      data-operation={span.operation}
      data-capture={server ? "hop" : span.capture}
      data-error={failed}
      data-evidence={span.evidence ?? ""}
      data-confidence={span.confidence ?? ""}
      onClick={() => props.onSelect(span.span_id)}
    >
      <div className="branch">
        <Connectors {...props} row={row} title={plainText(explain(span, parent).sentence)} />
        {row.children > 0 ? (
          <button
            type="button"
            className="twisty"
            tabIndex={-1}
            // Hidden from screen readers: the arrow keys do the same, and the line's text names it.
            aria-hidden="true"
            title={row.closed ? "Expand" : "Collapse"}
            onClick={(event) => {
              event.stopPropagation();
              props.onToggle(span.span_id);
            }}
          >
            <svg width="8" height="8" viewBox="0 0 8 8" aria-hidden="true">
              <path d="M1 2.5h6L4 6z" fill="currentColor" />
            </svg>
          </button>
        ) : (
          <span className="no-twisty" />
        )}
        <span className="stripe" />
        {server ? (
          <>
            <CaptureTag capture="client-process" />
            <CaptureTag capture="server-process" />
          </>
        ) : (
          <CaptureTag capture={span.capture} />
        )}
        {doubt && (
          <span
            className="doubt-icon"
            title="Several requests could have caused this span; none was chosen"
          >
            ?
          </span>
        )}
        {failed && (
          <span className="alert-icon" title={text ?? undefined}>
            !
          </span>
        )}
        <span className="name">
          <span
            className="from cut"
            title={server ? `${span.service} calls ${server.service}` : span.service}
          >
            {server ? `${span.service} → ${server.service}` : span.service}
          </span>
          <span className="operation cut" title={span.operation}>
            {span.operation}
          </span>
          {failed && (
            <span
              className="said is-error cut"
              title={text ?? undefined}
              data-testid="failure-text"
            >
              {text ?? code}
            </span>
          )}
          {unknown && (
            <span className="label" title="It was not seen how this call ended">
              unknown
            </span>
          )}
        </span>
        {row.repeated && (
          <span
            className="badge repeated"
            title={`${row.repeated.count} siblings of this name, ${formatDuration(row.repeated.totalNano)} together; this is the first`}
            data-testid="repeated"
          >
            ×{row.repeated.count} · {formatDuration(row.repeated.totalNano)}
          </span>
        )}
        {row.closed && <span className="count">{row.children}</span>}
      </div>
      <Bars {...props} row={row} />
    </div>
  );
});

/** Connecting lines from the parent to this line: solid if the link is certain. */
function Connectors(props: LineProps & { row: Row; title: string }) {
  const { row, rows, indent } = props;
  const width = 14 + row.level * indent;
  const x = (level: number) => Math.round(14 + level * indent - indent / 2 - 1) + 0.5;
  const down: string[] = [];
  let at = row.parent;
  for (let step = 0; at >= 0 && step < MOST_GUIDES; step++) {
    const above = rows[at]!;
    if (!above.last && above.level > 0) down.push(`M${x(above.level)} 0V${LINE_HEIGHT}`);
    at = above.parent;
  }
  const middle = LINE_HEIGHT / 2;
  return (
    <svg className="connectors" width={width} height={LINE_HEIGHT} aria-hidden="true">
      <path d={down.join("")} />
      {row.level > 0 && (
        <>
          {/* The stem belongs to all siblings. Only the branch shows the certainty of this link. */}
          <path d={`M${x(row.level)} 0V${row.last ? middle : LINE_HEIGHT}`} />
          <path
            className={row.link === "guess" ? "guess" : "own"}
            d={
              row.link === "guess"
                ? `M${x(row.level)} 0V${middle + 0.5}H${width + 2}`
                : `M${x(row.level)} ${middle + 0.5}H${width}`
            }
          >
            <title>{props.title}</title>
          </path>
        </>
      )}
    </svg>
  );
}

function Bars(props: LineProps & { row: Row }) {
  const { tree, row } = props;
  const { span, server } = row;
  const scale = 100 / (props.to - props.from);
  const start = tree.start.get(span.span_id)!;
  const length = Math.max(0, nano(span.duration_nano));
  const left = (start - props.from) * scale;
  const right = left + length * scale;
  const text = server
    ? `${formatDuration(length)} · net ${formatDuration(row.networkNano)}`
    : formatDuration(length);
  const shown = { left: Math.max(0, left), right: Math.min(100, right) };
  // A short text fits after the end of the lane. A longer one needs part of the lane.
  const fits = shown.right < (server ? 86 : 100.01);
  // A bar from 1970 until now would fill the lane and mean nothing.
  const elsewhere = isElsewhere(span);
  if (right < 0 || left > 100 || elsewhere) {
    const before = elsewhere ? left < 0 : right < 0;
    const title = elsewhere ? "This span's clock cannot be right: see spanwise.clock" : undefined;
    return (
      <div className="bar-lane">
        <span
          className="bar-text quiet"
          data-testid={elsewhere ? "elsewhere" : undefined}
          style={before ? { left: 0 } : { right: 0 }}
          title={title}
        >
          {before ? "←" : "→"}
        </span>
      </div>
    );
  }
  return (
    <div className="bar-lane" title={`${text}, ${plural(row.children, "child", "children")}`}>
      <div
        className={server ? "bar outer" : "bar"}
        style={{ left: `${shown.left}%`, width: `${shown.right - shown.left}%` }}
      />
      {server && (
        <Inner
          from={(tree.start.get(server.span_id)! - props.from) * scale}
          length={Math.max(0, nano(server.duration_nano)) * scale}
        />
      )}
      <PathParts {...props} row={row} />
      {fits ? (
        <span className="bar-text" style={{ left: `${shown.right}%` }}>
          {text}
        </span>
      ) : shown.left > 24 ? (
        <span className="bar-text" style={{ right: `${100 - shown.left}%` }}>
          {text}
        </span>
      ) : (
        <span className="bar-text boxed" style={{ left: `${shown.left}%` }}>
          {text}
        </span>
      )}
    </div>
  );
}

/** Where the critical path goes through this line's spans. */
function PathParts({ path, row, from, to }: LineProps & { row: Row }) {
  if (path === null) return null;
  const scale = 100 / (to - from);
  const sides = row.server ? [row.span, row.server] : [row.span];
  return sides
    .flatMap((side) => path.get(side.span_id) ?? [])
    .map((part) => {
      const left = Math.max(0, (part.from - from) * scale);
      const right = Math.min(100, (part.to - from) * scale);
      return right <= left ? null : (
        <i
          key={`${part.id} ${part.from}`}
          className="on-path"
          style={{ left: `${left}%`, width: `${right - left}%` }}
        />
      );
    });
}

/** The visible part of the server's side of a call, in per cent. */
function Inner({ from, length }: { from: number; length: number }) {
  const left = Math.min(100, Math.max(0, from));
  const right = Math.min(100, Math.max(0, from + length));
  return right > left || length === 0 ? (
    <div className="bar inner" style={{ left: `${left}%`, width: `${right - left}%` }} />
  ) : null;
}
