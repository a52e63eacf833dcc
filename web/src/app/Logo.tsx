/** The word mark: nested spans in the shape of a wing. */
export function Logo() {
  return (
    <svg width="22" height="22" viewBox="0 0 24 24" aria-hidden="true">
      <path className="leaf-1" d="M2 4.5h20l-2.3 3.8H2z" />
      <path className="leaf-2" d="M6.8 10.1h11.8l-2.3 3.8H6.8z" />
      <path className="leaf-3" d="M11.6 15.7h3.6l-2.3 3.8h-1.3z" />
    </svg>
  );
}
