/** The problem that the server reported (RFC 9457), or that the server did not answer. */
export class ApiError extends Error {
  readonly status: number;
  readonly title: string;
  constructor(status: number, title: string, detail: string) {
    super(detail);
    this.status = status;
    this.title = title;
  }
}

/** Parameters of a request. Parameters without a value are left out. */
export type Parameters = Record<string, string | number | undefined | null | string[]>;

export function queryString(parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(key, String(one));
  }
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

export async function get<T>(
  path: string,
  parameters: Parameters,
  signal?: AbortSignal,
): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/api/v1/${path}${queryString(parameters)}`, {
      signal: signal ?? null,
      // A page of another site cannot set this header without a CORS preflight.
      headers: { accept: "application/json", "spanwise-request": "ui" },
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError(
      0,
      "The server does not answer",
      "No connection to the Spanwise server. Is `spanwise up` still running?",
    );
  }
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    const problem = (body ?? {}) as { title?: string; detail?: string };
    throw new ApiError(
      response.status,
      problem.title ?? `HTTP ${response.status}`,
      problem.detail ?? response.statusText,
    );
  }
  if (body === null) {
    throw new ApiError(
      response.status,
      "Not an answer of Spanwise",
      `/api/v1/${path} returned no JSON. Is another program listening on this port?`,
    );
  }
  return body as T;
}
