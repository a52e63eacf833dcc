// Runs before the first paint, so that the page does not flash in the wrong theme.
try {
  const theme = localStorage.getItem("spanwise.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // In private mode the storage may be unavailable: the system's theme is used.
}
