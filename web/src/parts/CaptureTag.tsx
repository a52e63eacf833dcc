import { captureWords } from "../model/evidence";

const SHAPES: Record<string, string> = {
  // An arrow out of a box, an arrow into a box, and braces.
  "client-process": "M6 2.5H2.5v9H6M5.5 7h7M9.5 4l3 3-3 3",
  "server-process": "M8 2.5h3.5v9H8M1.5 7h7M5.5 4l3 3-3 3",
  "client-nic": "M2 9.5V5h10v4.5zM4.5 5V2.5M9.5 5V2.5",
  "server-nic": "M2 4.5V9h10V4.5zM4.5 9v2.5M9.5 9v2.5",
  // A cup.
  jvm: "M3 5.5h6.5v3a2.5 2.5 0 0 1-2.5 2.5H5.5A2.5 2.5 0 0 1 3 8.5zM9.5 6.5h2v2h-2M5 2v1.5M7.5 2v1.5",
  app: "M5 2.5C3 2.5 4.5 6 2.5 7 4.5 8 3 11.5 5 11.5M9 2.5c2 0 .5 3.5 2.5 4.5-2 1-.5 4.5-2.5 4.5",
};

/** A small symbol for where a span was captured. */
export function CaptureTag({ capture }: { capture: string }) {
  const [short, long] = captureWords(capture);
  return (
    <svg
      className="capture"
      data-capture-tag={capture}
      width="14"
      height="14"
      viewBox="0 0 14 14"
      role="img"
      aria-label={short}
    >
      <title>{`${capture}: seen ${long}`}</title>
      <path
        d={SHAPES[capture] ?? "M7 4v4M7 10v.5"}
        fill="none"
        stroke="currentColor"
        strokeWidth="1.3"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
