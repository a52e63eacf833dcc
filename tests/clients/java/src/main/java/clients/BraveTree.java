package clients;

import brave.Span;
import brave.Tracer;
import brave.Tracing;
import brave.propagation.TraceContext;
import java.util.HashMap;
import java.util.Map;
import zipkin2.reporter.brave.AsyncZipkinSpanHandler;
import zipkin2.reporter.urlconnection.URLConnectionSender;

/** Two services that report the halves of one call under one id, connected by B3 headers. */
final class BraveTree {
    private BraveTree() {}

    static String send(String service, String endpoint) throws Exception {
        String id;
        try (URLConnectionSender sender = URLConnectionSender.create(endpoint);
                AsyncZipkinSpanHandler handler = AsyncZipkinSpanHandler.create(sender);
                Tracing front = tracing(service, handler);
                Tracing back = tracing(service + "-back", handler)) {
            Tracer tracer = front.tracer();
            Span root = tracer.newTrace().name("checkout").kind(Span.Kind.SERVER).start();
            Span price = tracer.newChild(root.context()).name("price").tag("items", "3").start();
            price.annotate("cache miss");
            price.finish();
            Span charge = tracer.newChild(root.context()).name("charge").kind(Span.Kind.CLIENT).start();
            Map<String, String> headers = new HashMap<>();
            TraceContext.Injector<Map<String, String>> injector = front.propagation().injector(Map::put);
            injector.inject(charge.context(), headers);
            answer(back, headers);
            charge.tag("error", "card declined");
            charge.finish();
            root.finish();
            id = root.context().traceIdString();
            handler.flush();
        }
        return id;
    }

    private static Tracing tracing(String service, AsyncZipkinSpanHandler handler) {
        return Tracing.newBuilder().localServiceName(service).addSpanHandler(handler).build();
    }

    private static void answer(Tracing back, Map<String, String> headers) {
        TraceContext.Extractor<Map<String, String>> extractor = back.propagation().extractor(Map::get);
        Span served = back.tracer().nextSpan(extractor.extract(headers)).name("charge").kind(Span.Kind.SERVER).start();
        back.tracer().newChild(served.context()).name("authorize").start().finish();
        served.finish();
    }
}
