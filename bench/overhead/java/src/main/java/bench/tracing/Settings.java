package bench.tracing;

import brave.sampler.BoundarySampler;
import brave.sampler.Sampler;

/** System properties that {@code tracers.py} sets. */
public final class Settings {
    /** What Spring Boot would configure only because OpenTelemetry's classes are there. */
    public static final String WITHOUT_OPENTELEMETRY = String.join(",",
            "org.springframework.boot.actuate.autoconfigure.opentelemetry.OpenTelemetryAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.logging.OpenTelemetryLoggingAutoConfiguration");

    /** The same of all tracing and metrics. */
    public static final String WITHOUT_TRACING = String.join(",",
            WITHOUT_OPENTELEMETRY,
            "org.springframework.boot.actuate.autoconfigure.observation.ObservationAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.observation.web.servlet.WebMvcObservationAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.observation.web.client.HttpClientObservationsAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.metrics.MetricsAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.tracing.BraveAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.tracing.MicrometerTracingAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.tracing.zipkin.ZipkinAutoConfiguration");

    private Settings() {}

    public static String required(String name) {
        String value = System.getProperty(name);
        if (value == null) {
            throw new IllegalStateException("the system property " + name + " is not set");
        }
        return value;
    }

    /** Brave's sampler for any share: the usual one, which Spring Boot takes too, knows none below a hundredth. */
    public static Sampler braveSampler() {
        float share = sampled();
        return share > 0 && share < 0.01f ? BoundarySampler.create(share) : Sampler.create(share);
    }

    /** The share of traces that a library keeps. */
    public static float sampled() {
        return Float.parseFloat(System.getProperty("bench.sampled", "1"));
    }
}
