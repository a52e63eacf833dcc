import { useEffect, useRef } from "react";
import { CaptureTag } from "../parts/CaptureTag";

const KEYS: readonly [keys: string[], what: string][] = [
  [["Ctrl+K"], "Go to a page, a service or an action by its name"],
  [["?"], "This help"],
  [["g"], "Jump to a trace by its id"],
  [["/"], "Search: the service on the search page, the filter in a trace"],
  [["f", "b"], "Next and previous span or trace (also j and k, or the arrows)"],
  [["n", "N"], "Next and previous found span"],
  [["s", "w"], "Scroll down and up by a page"],
  [["a", "d"], "Move the visible time left and right (A and D: farther)"],
  [["+", "-"], "Zoom the visible time in and out"],
  [["p", "o"], "Expand and collapse one level"],
  [["]", "["], "Expand and collapse everything"],
  [["←", "→"], "Collapse and expand the span"],
  [["e"], "Next span that failed"],
  [["c"], "Draw the critical path"],
  [["r"], "Fold repeated siblings"],
  [["m"], "Merge both sides of each hop into one line"],
  [["v"], "Next view of the trace"],
  [["Enter"], "Open what is chosen; press what has the focus"],
  [["Esc"], "Close the details, or leave a field"],
];

export function Help({ open, onClose }: { open: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
    if (!open && dialog.current?.open) dialog.current.close();
  }, [open]);
  return (
    <dialog
      ref={dialog}
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
      aria-label="Help"
    >
      <h2>Keys</h2>
      <dl className="keys">
        {KEYS.map(([keys, what]) => (
          <div key={what} className="pair">
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <h2>Where a span was seen</h2>
      <dl className="keys">
        {(["client-process", "server-process", "app", "jvm"] as const).map((capture) => (
          <div key={capture} className="pair">
            <dt>
              <CaptureTag capture={capture} />
            </dt>
            <dd>
              {
                {
                  "client-process": "in the kernel, at the socket calls of the caller",
                  "server-process": "in the kernel, at the socket calls of the called",
                  app: "by the application itself, through its SDK",
                  jvm: "inside of the application, by the JVM agent",
                }[capture]
              }
            </dd>
          </div>
        ))}
      </dl>
      <h2>Links</h2>
      <p className="quiet help-links">
        A solid connector is a link that cannot be accidental. A dashed one is a guess, with its
        confidence in the details. <b className="warn-text">?</b> marks a span that several requests
        could have caused: Spanwise chose none.
      </p>
      <button type="button" className="button" onClick={onClose}>
        Close
      </button>
    </dialog>
  );
}
