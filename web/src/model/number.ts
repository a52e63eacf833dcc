/** Formats counts, rates and bytes. */

const ACRONYMS: Record<string, string> = {
  api: "API",
  bpf: "BPF",
  btf: "BTF",
  grpc: "gRPC",
  http: "HTTP",
  otlp: "OTLP",
  rss: "RSS",
  sql: "SQL",
  tcp: "TCP",
  ui: "UI",
  wal: "WAL",
};

const GROUPED = new Intl.NumberFormat("en-US");

export function formatCount(value: number): string {
  return GROUPED.format(value);
}

/** Requests per second: `0.02/s`, `3.4/s`, `128/s`, `1.2k/s`. */
export function formatRate(perSecond: number): string {
  if (perSecond === 0) return "0/s";
  if (perSecond < 0.01) return "<0.01/s";
  if (perSecond >= 1000) return `${(perSecond / 1000).toFixed(1)}k/s`;
  const digits = perSecond < 1 ? 2 : perSecond < 10 ? 1 : 0;
  return `${perSecond.toFixed(digits)}/s`;
}

/**
 * Formats a fraction as per cent: never `0%` for more than nothing, and never `100%` for less
 * than all.
 */
export function formatShare(share: number): string {
  if (share <= 0) return "0%";
  if (share >= 1) return "100%";
  if (share < 0.001) return "<0.1%";
  if (share > 0.999) return ">99.9%";
  const percent = share * 100;
  return `${percent < 10 || percent > 99 ? percent.toFixed(1) : percent.toFixed(0)}%`;
}

export function formatBytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  const text = unit === 0 ? GROUPED.format(size) : size.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
  return `${text} ${units[unit]}`;
}

/** The display name of a field such as `rtt_nano`, without the unit at its end. */
export function plainName(name: string): string {
  const words = name
    .replace(/_(unix_nano|nano|seconds)$/, "")
    .replace(/_bytes$/, "_size")
    .split(/[_.-]+/)
    .map((word) => ACRONYMS[word] ?? word)
    .join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
