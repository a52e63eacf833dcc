package bench.tracing;

import jakarta.servlet.Filter;
import java.util.concurrent.Callable;
import javax.sql.DataSource;
import org.springframework.http.client.ClientHttpRequestInterceptor;

/**
 * What a program does itself in order to be traced, by one tracer. Without a tracer, and for an agent, it does nothing:
 * these are the methods' defaults. Programs call it where a developer would have put the library's own integration.
 */
public interface Tracing extends AutoCloseable {
    /** By the name of a column of the results; {@code tracers.py} has the same. */
    static Tracing named(String tracer) {
        return switch (tracer) {
            case "none", "spanwise" -> new Tracing() {};
            case "noop" -> OpenTelemetryTracing.noop();
            case "otel-sdk" -> OpenTelemetryTracing.sdk();
            case "otel-agent" -> OpenTelemetryTracing.agent();
            case "brave" -> new BraveTracing();
            case "skywalking" -> new SkyWalkingTracing();
            default -> throw new IllegalArgumentException("no tracer is called " + tracer);
        };
    }

    /** Work with a span of its own. */
    default <T> T span(String name, Callable<T> work) throws Exception {
        return work.call();
    }

    /** A statement with a span of its own, where {@link #database} cannot give it one. */
    default <T> T statement(String sql, Callable<T> work) throws Exception {
        return work.call();
    }

    /** A database whose statements get spans. */
    default DataSource database(DataSource plain) {
        return plain;
    }

    /** Makes the spans of a servlet container; or null. */
    default Filter filter() {
        return null;
    }

    /** Makes the spans of calls that Spring's RestTemplate sends; or null. */
    default ClientHttpRequestInterceptor client() {
        return null;
    }

    @Override
    default void close() {}
}
