/**
 * Keeps the keyboard's place on the page. A browser gives the focus up when the focused element is
 * removed: by a button that closes what it is in, or a link to another page. Tab would then begin
 * at the top, and nobody would see where the focus is.
 */

/** Elements that may take the focus in place of what was in them. */
const PLACES = "[tabindex], main, aside, nav, form, section, header";

/** Marks what takes the focus when something beside it is closed. */
const HOME = "[data-focus-home]";

/** Puts the focus near an element that was removed, whenever that happens. Called once. */
export function keepFocus(root: HTMLElement): void {
  let lost: Element | null = null;
  let above: Element[] = [];
  document.addEventListener("focusin", ({ target }) => {
    if (!(target instanceof Element) || !root.contains(target)) return;
    lost = target;
    above = [];
    for (let one = target.parentElement; one && one !== root; one = one.parentElement) {
      above.push(one);
    }
  });
  document.addEventListener("focusout", ({ target }) => {
    // A removed element also says this. An element that stays was left on purpose.
    queueMicrotask(() => {
      if (target === lost && lost?.isConnected && document.activeElement !== lost) lost = null;
    });
  });
  const restore = () => {
    if (lost === null || lost.isConnected) return;
    if (document.activeElement !== document.body) {
      lost = null;
      return;
    }
    for (const one of above) {
      if (!one.isConnected || !one.matches(PLACES)) continue;
      if (take(one.querySelector(HOME)) || take(one)) return;
    }
    // The page itself was left: another is here, or comes with a later change.
    take(root.querySelector("main"));
  };
  new MutationObserver(restore).observe(root, { childList: true, subtree: true });
}

/** Whether the element has the focus now. */
function take(element: Element | null): boolean {
  if (!(element instanceof HTMLElement)) return false;
  const focusable = element.tabIndex >= 0 || element.hasAttribute("tabindex");
  if (!focusable) {
    element.tabIndex = -1;
    // Only for this time: else a click on its empty space would focus it.
    element.addEventListener("blur", () => element.removeAttribute("tabindex"), { once: true });
  }
  element.focus({ preventScroll: true });
  return document.activeElement === element;
}
