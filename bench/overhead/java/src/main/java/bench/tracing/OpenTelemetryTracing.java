package bench.tracing;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.instrumentation.jdbc.datasource.JdbcTelemetry;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import io.opentelemetry.sdk.trace.samplers.Sampler;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Collections;
import java.util.concurrent.Callable;
import javax.sql.DataSource;
import org.springframework.http.client.ClientHttpRequestInterceptor;

/**
 * OpenTelemetry, as its API's documentation shows it: with its SDK, with nothing behind the API (noop), and with its
 * agent behind it, which instruments everything but a program's own spans by itself.
 */
final class OpenTelemetryTracing implements Tracing {
    private static final AttributeKey<String> METHOD = AttributeKey.stringKey("http.request.method");
    private static final AttributeKey<String> PATH = AttributeKey.stringKey("url.path");
    private static final AttributeKey<Long> STATUS = AttributeKey.longKey("http.response.status_code");
    private static final TextMapGetter<HttpServletRequest> HEADERS = new TextMapGetter<>() {
        @Override
        public Iterable<String> keys(HttpServletRequest request) {
            return Collections.list(request.getHeaderNames());
        }

        @Override
        public String get(HttpServletRequest request, String key) {
            return request.getHeader(key);
        }
    };

    private final OpenTelemetry api;
    private final Tracer tracer;
    private final boolean instrumentedByAgent;

    private OpenTelemetryTracing(OpenTelemetry api, boolean instrumentedByAgent) {
        this.api = api;
        this.instrumentedByAgent = instrumentedByAgent;
        tracer = api.getTracer("bench");
    }

    static Tracing noop() {
        return new OpenTelemetryTracing(OpenTelemetry.noop(), false);
    }

    static Tracing agent() {
        return new OpenTelemetryTracing(GlobalOpenTelemetry.get(), true);
    }

    static Tracing sdk() {
        var exporter = OtlpHttpSpanExporter.builder()
                .setEndpoint(Settings.required("bench.otlp") + "/v1/traces")
                .build();
        var provider = SdkTracerProvider.builder()
                .setResource(Resource.getDefault()
                        .merge(Resource.builder().put("service.name", "bench").build()))
                .setSampler(Sampler.parentBased(Sampler.traceIdRatioBased(Settings.sampled())))
                .addSpanProcessor(BatchSpanProcessor.builder(exporter).build())
                .build();
        return new OpenTelemetryTracing(
                OpenTelemetrySdk.builder()
                        .setTracerProvider(provider)
                        .setPropagators(ContextPropagators.create(W3CTraceContextPropagator.getInstance()))
                        .build(),
                false);
    }

    @Override
    public <T> T span(String name, Callable<T> work) throws Exception {
        Span span = tracer.spanBuilder(name).startSpan();
        try (Scope ignored = span.makeCurrent()) {
            return work.call();
        } finally {
            span.end();
        }
    }

    @Override
    public DataSource database(DataSource plain) {
        return instrumentedByAgent ? plain : JdbcTelemetry.create(api).wrap(plain);
    }

    @Override
    public Filter filter() {
        return instrumentedByAgent ? null : this::serve;
    }

    private void serve(ServletRequest any, ServletResponse anyResponse, FilterChain chain)
            throws IOException, ServletException {
        HttpServletRequest request = (HttpServletRequest) any;
        Context parent = api.getPropagators().getTextMapPropagator().extract(Context.current(), request, HEADERS);
        Span span = tracer.spanBuilder(request.getMethod())
                .setParent(parent)
                .setSpanKind(SpanKind.SERVER)
                .setAttribute(METHOD, request.getMethod())
                .setAttribute(PATH, request.getRequestURI())
                .startSpan();
        try (Scope ignored = span.makeCurrent()) {
            chain.doFilter(request, anyResponse);
        } finally {
            span.setAttribute(STATUS, (long) ((HttpServletResponse) anyResponse).getStatus());
            span.end();
        }
    }

    @Override
    public ClientHttpRequestInterceptor client() {
        if (instrumentedByAgent) {
            return null;
        }
        return (request, body, execution) -> {
            Span span = tracer.spanBuilder(request.getMethod().name())
                    .setSpanKind(SpanKind.CLIENT)
                    .setAttribute(METHOD, request.getMethod().name())
                    .setAttribute(PATH, request.getURI().getPath())
                    .startSpan();
            try (Scope ignored = span.makeCurrent()) {
                api.getPropagators()
                        .getTextMapPropagator()
                        .inject(Context.current(), request.getHeaders(), (headers, key, value) -> headers.set(key, value));
                var response = execution.execute(request, body);
                span.setAttribute(STATUS, (long) response.getStatusCode().value());
                return response;
            } finally {
                span.end();
            }
        };
    }

    @Override
    public void close() {
        if (api instanceof OpenTelemetrySdk sdk) {
            sdk.close();
        }
    }
}
