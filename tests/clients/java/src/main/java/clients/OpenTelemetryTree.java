package clients;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.exporter.otlp.trace.OtlpGrpcSpanExporter;
import io.opentelemetry.exporter.zipkin.ZipkinSpanExporter;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import io.opentelemetry.sdk.trace.export.SpanExporter;
import java.util.concurrent.TimeUnit;

/** OpenTelemetry's SDK with three of its exporters. */
final class OpenTelemetryTree {
    private OpenTelemetryTree() {}

    static String send(String client, String service, String endpoint) {
        SpanExporter exporter = switch (client) {
            case "otlp-grpc" -> OtlpGrpcSpanExporter.builder().setEndpoint(endpoint).setCompression("gzip").build();
            case "otlp-http" -> OtlpHttpSpanExporter.builder().setEndpoint(endpoint).setCompression("gzip").build();
            default -> ZipkinSpanExporter.builder().setEndpoint(endpoint).build();
        };
        Resource named = Resource.create(Attributes.of(AttributeKey.stringKey("service.name"), service));
        SdkTracerProvider provider = SdkTracerProvider.builder()
                .setResource(named)
                .addSpanProcessor(BatchSpanProcessor.builder(exporter).build())
                .build();
        Tracer tracer = provider.get("tree");
        Span root = tracer.spanBuilder("checkout").setNoParent().setSpanKind(SpanKind.SERVER).startSpan();
        Context below = Context.root().with(root);
        Span price = tracer.spanBuilder("price").setParent(below).setAttribute("items", 3).startSpan();
        price.addEvent("cache miss");
        price.end();
        Span charge = tracer.spanBuilder("charge").setParent(below).setSpanKind(SpanKind.CLIENT).startSpan();
        charge.setStatus(StatusCode.ERROR, "card declined");
        charge.end();
        root.end();
        provider.shutdown().join(20, TimeUnit.SECONDS);
        return root.getSpanContext().getTraceId();
    }
}
