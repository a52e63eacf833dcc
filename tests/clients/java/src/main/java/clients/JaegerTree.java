package clients;

import io.jaegertracing.internal.JaegerSpan;
import io.jaegertracing.internal.JaegerTracer;
import io.jaegertracing.internal.reporters.RemoteReporter;
import io.jaegertracing.internal.samplers.ConstSampler;
import io.jaegertracing.spi.Sender;
import io.jaegertracing.thrift.internal.senders.HttpSender;
import io.jaegertracing.thrift.internal.senders.UdpSender;
import java.net.URI;
import java.util.Map;

/** Jaeger's own old client, with Thrift over HTTP and UDP. */
final class JaegerTree {
    private JaegerTree() {}

    static String send(String client, String service, String endpoint) throws Exception {
        URI at = URI.create(endpoint);
        Sender sender = client.equals("jaeger-http")
                ? new HttpSender.Builder(endpoint).build()
                : new UdpSender(at.getHost(), at.getPort(), 0);
        RemoteReporter reporter = new RemoteReporter.Builder().withSender(sender).build();
        try (JaegerTracer tracer = new JaegerTracer.Builder(service)
                .withSampler(new ConstSampler(true))
                .withReporter(reporter)
                .build()) {
            JaegerSpan root = tracer.buildSpan("checkout").withTag("span.kind", "server").start();
            JaegerSpan price = tracer.buildSpan("price").asChildOf(root).withTag("items", 3).start();
            price.log("cache miss");
            price.finish();
            JaegerSpan charge = tracer.buildSpan("charge").asChildOf(root).withTag("span.kind", "client").start();
            charge.setTag("error", true);
            charge.log(Map.of("event", "error", "error.kind", "card declined"));
            charge.finish();
            root.finish();
            return root.context().getTraceId();
        }
    }
}
