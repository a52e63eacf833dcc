import { Suspense } from "react";
import type { ReactNode } from "react";
import { Blank } from "./Blank";

/** A page whose code is loaded when it is opened. */
export function Later({ children }: { children: ReactNode }) {
  return (
    <Suspense
      fallback={
        <main>
          <Blank title="Loading the page" busy whole />
        </main>
      }
    >
      {children}
    </Suspense>
  );
}
