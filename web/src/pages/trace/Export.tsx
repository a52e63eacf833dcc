/** The whole trace as a file, in the formats that other tools read. */
const FORMATS = [
  ["spanwise", "Spanwise JSON", (id: string) => `/api/v1/traces/${id}?download=1`],
  ["otlp", "OTLP JSON", (id: string) => `/tempo/api/traces/${id}`],
  ["jaeger", "Jaeger JSON", (id: string) => `/jaeger/api/traces/${id}`],
  ["zipkin", "Zipkin JSON", (id: string) => `/zipkin/api/v2/trace/${id}`],
] as const;

export function Export({ id }: { id: string }) {
  return (
    <details
      className="export"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.currentTarget.open = false;
        event.stopPropagation();
      }}
    >
      <summary className="button" data-testid="export">
        Download
      </summary>
      <div>
        {FORMATS.map(([name, title, address]) => (
          <a
            key={name}
            className="button plain"
            href={address(id)}
            download={`trace-${id}.${name}.json`}
            data-testid={name === "spanwise" ? "download" : `download-${name}`}
            onClick={(event) => event.currentTarget.closest("details")?.removeAttribute("open")}
          >
            {title}
          </a>
        ))}
      </div>
    </details>
  );
}
