import { useEffect, useState } from "react";

/** Copies text. Works without a secure context too, such as over plain HTTP. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    area.style.opacity = "0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function Copy({
  text,
  label,
  className = "button tiny plain",
}: {
  text: string;
  label?: string;
  className?: string;
}) {
  const [done, setDone] = useState<boolean | null>(null);
  useEffect(() => {
    if (done === null) return;
    const timer = setTimeout(() => setDone(null), 1200);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button
      type="button"
      className={className}
      title={`Copy ${label?.toLowerCase() ?? ""}`.trim()}
      aria-label={label ? undefined : "Copy"}
      onClick={(event) => {
        event.stopPropagation();
        void copy(text).then(setDone);
      }}
    >
      {done === null ? (
        <svg
          width="12"
          height="12"
          viewBox="0 0 12 12"
          fill="none"
          stroke="currentColor"
          strokeWidth="1.2"
          aria-hidden="true"
        >
          <rect x="4" y="4" width="6.5" height="6.5" rx="1.2" />
          <path d="M8 2.2A.7.7 0 0 0 7.3 1.5h-5a.8.8 0 0 0-.8.8v5c0 .4.3.7.7.7" />
        </svg>
      ) : (
        <span aria-live="polite">{done ? "✓" : "✗"}</span>
      )}
      {label}
    </button>
  );
}
