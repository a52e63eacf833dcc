// Before the first paint, so that a remembered theme does not flash.
try {
  const theme = localStorage.getItem("spanwise.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // Private mode: the system's theme it is.
}
