import { Colours } from "../../app/palette";
import { useTitle } from "../../app/title";
import { Blank } from "../../parts/Blank";
import { Prose } from "../../parts/Prose";
import { dropped, take } from "./dropped";
import { ShownTrace } from "./ShownTrace";

const STILL = { busy: false, failed: false, after: null, before: null };

/** A trace from a file. Nothing of it goes to the server. */
export function FilePage() {
  const file = dropped.use();
  useTitle(file?.name, "File");
  const trace = file?.trace;
  if (trace) {
    return (
      <Colours names={trace.services.map((service) => service.name)}>
        <ShownTrace
          key={file.name}
          trace={trace}
          asked={trace.trace_id}
          more={STILL}
          missing={null}
          local
          onSeek={() => undefined}
        />
      </Colours>
    );
  }
  return (
    <main className="page">
      <Blank title={file ? `${file.name} cannot be shown` : "View a file"} whole>
        {file?.problem && (
          <p role="alert" data-testid="file-problem">
            <Prose text={file.problem} />
          </p>
        )}
        <p>
          Drop a file of spans anywhere in this page, or choose one: OTLP, Jaeger or Zipkin, as
          JSON. It stays in this browser.
        </p>
        <input
          type="file"
          accept=".json,.jsonl,application/json"
          aria-label="File of spans"
          data-testid="file"
          onChange={(event) => {
            const [chosen] = event.target.files ?? [];
            if (chosen) void take(chosen);
          }}
        />
      </Blank>
    </main>
  );
}
