"use strict";
// Sends the known tree with one of Node.js' clients: tree.js CLIENT SERVICE ENDPOINT. Prints the
// trace's id.

async function openTelemetry(exporter, service) {
  const { SpanKind, SpanStatusCode, ROOT_CONTEXT, trace } = require("@opentelemetry/api");
  const { resourceFromAttributes } = require("@opentelemetry/resources");
  const { BasicTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-base");
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ "service.name": service }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  const tracer = provider.getTracer("tree");
  const root = tracer.startSpan("checkout", { kind: SpanKind.SERVER }, ROOT_CONTEXT);
  const below = trace.setSpan(ROOT_CONTEXT, root);
  const price = tracer.startSpan("price", { attributes: { items: 3 } }, below);
  price.addEvent("cache miss");
  price.end();
  const charge = tracer.startSpan("charge", { kind: SpanKind.CLIENT }, below);
  charge.setStatus({ code: SpanStatusCode.ERROR, message: "card declined" });
  charge.end();
  root.end();
  await provider.shutdown();
  return root.spanContext().traceId;
}

async function jaeger(sender, service) {
  const { initTracer } = require("jaeger-client");
  const reporter = { flushIntervalMs: 100, ...sender };
  const tracer = initTracer({ serviceName: service, sampler: { type: "const", param: 1 }, reporter }, {});
  const root = tracer.startSpan("checkout", { tags: { "span.kind": "server" } });
  const price = tracer.startSpan("price", { childOf: root, tags: { items: 3 } });
  price.log({ event: "cache miss" });
  price.finish();
  const charge = tracer.startSpan("charge", { childOf: root, tags: { "span.kind": "client", error: true } });
  charge.log({ event: "error", "error.kind": "card declined" });
  charge.finish();
  root.finish();
  await new Promise((resolve) => tracer.close(resolve));
  return root.context().traceIdStr.padStart(32, "0");
}

// Two services that report the halves of one call under one id.
async function zipkin(encoder, service, endpoint) {
  const { Annotation, BatchRecorder, ExplicitContext, Tracer, jsonEncoder } = require("zipkin");
  const { HttpLogger } = require("zipkin-transport-http");
  const logger = new HttpLogger({ endpoint, jsonEncoder: jsonEncoder[encoder], httpInterval: 100, fetchImplementation: require("node-fetch") });
  // Each service has its own recorder, because one recorder would merge the halves.
  const tracerOf = (localServiceName) =>
    new Tracer({ ctxImpl: new ExplicitContext(), recorder: new BatchRecorder({ logger }), localServiceName, supportsJoin: true });
  const [front, back] = [tracerOf(service), tracerOf(`${service}-back`)];
  const within = (tracer, id, name, begin, end, body) => {
    tracer.letId(id, () => {
      tracer.recordServiceName(tracer.localEndpoint.serviceName);
      tracer.recordRpc(name);
      tracer.recordAnnotation(begin);
      body();
      tracer.recordAnnotation(end);
    });
  };
  const local = (tracer, name, body) => {
    tracer.letId(tracer.createChildId(), () => {
      tracer.recordServiceName(tracer.localEndpoint.serviceName);
      tracer.recordAnnotation(new Annotation.LocalOperationStart(name));
      body();
      tracer.recordAnnotation(new Annotation.LocalOperationStop());
    });
  };
  const root = front.createRootId();
  within(front, root, "checkout", new Annotation.ServerRecv(), new Annotation.ServerSend(), () => {
    local(front, "price", () => {
      front.recordBinary("items", "3");
      front.recordMessage("cache miss");
    });
    const call = front.createChildId();
    within(front, call, "charge", new Annotation.ClientSend(), new Annotation.ClientRecv(), () => {
      front.recordBinary("error", "card declined");
      const joined = back.join(call);
      within(back, joined, "charge", new Annotation.ServerRecv(), new Annotation.ServerSend(), () => {
        // Version 1 names the service only with an annotation.
        local(back, "authorize", () => back.recordBinary("bank", "ours"));
      });
    });
  });
  await new Promise((resolve) => setTimeout(resolve, 1500));
  return root.traceId.padStart(32, "0");
}

const at = (endpoint) => new URL(endpoint);
const CLIENTS = {
  "otlp-grpc": (service, url) => {
    const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-grpc");
    return openTelemetry(new OTLPTraceExporter({ url }), service);
  },
  "otlp-http": (service, url) => {
    const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-proto");
    return openTelemetry(new OTLPTraceExporter({ url }), service);
  },
  "otlp-json": (service, url) => {
    const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-http");
    return openTelemetry(new OTLPTraceExporter({ url }), service);
  },
  "zipkin-json": (service, url) => {
    const { ZipkinExporter } = require("@opentelemetry/exporter-zipkin");
    return openTelemetry(new ZipkinExporter({ url, serviceName: service }), service);
  },
  "zipkin-js-v1": (service, url) => zipkin("JSON_V1", service, url),
  "zipkin-js-v2": (service, url) => zipkin("JSON_V2", service, url),
  "jaeger-udp": (service, url) =>
    jaeger({ agentHost: at(url).hostname, agentPort: Number(at(url).port) }, service),
  "jaeger-http": (service, url) => jaeger({ collectorEndpoint: url }, service),
};

const [client, service, endpoint] = process.argv.slice(2);
CLIENTS[client](service, endpoint).then(
  (id) => {
    console.log(id);
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
