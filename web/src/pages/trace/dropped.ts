/** The trace of a file that was dropped into the page. It lives as long as the tab's page. */
import type { TracePage } from "../../api/types";
import { Followed } from "../../app/store";
import { FileProblem } from "../../model/files/plain";
import { MOST_BYTES, readFile } from "../../model/files/read";

export interface Dropped {
  name: string;
  trace: TracePage | null;
  /** Why there is no trace. */
  problem: string | null;
}

export const dropped = new Followed<Dropped | null>(null);

export async function take(file: File): Promise<void> {
  const { name } = file;
  try {
    if (file.size > MOST_BYTES) {
      throw new FileProblem(
        "The file is larger than 256 MiB. Import it into the server with `spanwise import`.",
      );
    }
    dropped.set({ name, trace: readFile(await file.text(), name), problem: null });
  } catch (cause) {
    const problem =
      cause instanceof FileProblem ? cause.message : `The file cannot be read: ${String(cause)}`;
    dropped.set({ name, trace: null, problem });
  }
}
