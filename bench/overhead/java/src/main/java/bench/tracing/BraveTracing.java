package bench.tracing;

import brave.Span;
import brave.Tracer;
import brave.http.HttpTracing;
import brave.jakarta.servlet.TracingFilter;
import brave.spring.web.TracingClientHttpRequestInterceptor;
import jakarta.servlet.Filter;
import java.util.concurrent.Callable;
import org.springframework.http.client.ClientHttpRequestInterceptor;
import zipkin2.reporter.brave.AsyncZipkinSpanHandler;
import zipkin2.reporter.urlconnection.URLConnectionSender;

/**
 * Brave, which sends to a Zipkin port. It has instrumentation of its own for servlets and Spring's clients; for JDBC
 * only that of MySQL's driver, so a statement's span is made by hand.
 */
final class BraveTracing implements Tracing {
    private final URLConnectionSender sender = URLConnectionSender.create(Settings.required("bench.zipkin") + "/api/v2/spans");
    private final AsyncZipkinSpanHandler handler = AsyncZipkinSpanHandler.create(sender);
    private final brave.Tracing tracing = brave.Tracing.newBuilder()
            .localServiceName("bench")
            .sampler(Settings.braveSampler())
            .addSpanHandler(handler)
            .build();
    private final Tracer tracer = tracing.tracer();
    private final HttpTracing http = HttpTracing.create(tracing);

    @Override
    public <T> T span(String name, Callable<T> work) throws Exception {
        return finish(tracer.nextSpan().name(name).start(), work);
    }

    @Override
    public <T> T statement(String sql, Callable<T> work) throws Exception {
        return finish(tracer.nextSpan().name("query").kind(Span.Kind.CLIENT).tag("sql.query", sql).start(), work);
    }

    private <T> T finish(Span span, Callable<T> work) throws Exception {
        try (Tracer.SpanInScope ignored = tracer.withSpanInScope(span)) {
            return work.call();
        } finally {
            span.finish();
        }
    }

    @Override
    public Filter filter() {
        return TracingFilter.create(http);
    }

    @Override
    public ClientHttpRequestInterceptor client() {
        return TracingClientHttpRequestInterceptor.create(http);
    }

    @Override
    public void close() {
        tracing.close();
        handler.close();
        sender.close();
    }
}
