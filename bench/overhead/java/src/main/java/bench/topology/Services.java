package bench.topology;

import bench.tracing.Settings;
import brave.sampler.Sampler;
import io.micrometer.context.ContextExecutorService;
import io.micrometer.context.ContextSnapshotFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.web.client.RestTemplateBuilder;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.core.env.Environment;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestTemplate;

/**
 * Services of a topology in this JVM, each an application of Spring Boot with a port of its own:
 * {@code Services TOPOLOGY FIRST_PORT FIRST_SERVICE COUNT none|micrometer}. Says "ready" once all answer. Ends when its
 * standard input does.
 */
public final class Services {
    /** As in the thesis's Listing 3.1. */
    private static final int THREADS_FOR_CALLS = 10;

    private Services() {}

    public static void main(String[] arguments) throws Exception {
        Topology topology = Topology.valueOf(arguments[0].toUpperCase(Locale.ROOT));
        int port = Integer.parseInt(arguments[1]);
        int first = Integer.parseInt(arguments[2]);
        int end = Math.min(first + Integer.parseInt(arguments[3]), topology.services());
        for (int service = first; service < end; service++) {
            start(topology, port, service, arguments[4].equals("micrometer"));
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
            // Nothing is said to us until the end.
        }
        System.exit(0);
    }

    private static void start(Topology topology, int port, int service, boolean micrometer) {
        List<String> calls = new ArrayList<>();
        for (int called : topology.calledBy(service)) {
            calls.add("http://127.0.0.1:" + (port + called) + "/rest/");
        }
        Map<String, Object> properties = new TreeMap<>(Map.of(
                "spring.application.name", Topology.name(service),
                "spring.main.banner-mode", "off",
                "spring.cloud.loadbalancer.enabled", false,
                "server.address", "127.0.0.1",
                "server.port", port + service,
                "server.tomcat.accept-count", 1000,
                "server.tomcat.max-keep-alive-requests", -1,
                "bench.calls", String.join(",", calls)));
        if (micrometer) {
            properties.put("spring.autoconfigure.exclude", Settings.WITHOUT_OPENTELEMETRY);
            properties.put("management.zipkin.tracing.endpoint", Settings.required("bench.zipkin") + "/api/v2/spans");
        } else {
            properties.put("spring.autoconfigure.exclude", Settings.WITHOUT_TRACING);
        }
        SpringApplication application = new SpringApplication(Application.class);
        application.setDefaultProperties(properties);
        if (micrometer) {
            application.addInitializers(context -> ((GenericApplicationContext) context)
                    .registerBean(Sampler.class, Settings::braveSampler));
        }
        application.run();
    }

    /** One service. */
    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(Rest.class)
    public static class Application {
        /** Its builder has the tracer's part, if there is a tracer. */
        @Bean
        RestTemplate rest(RestTemplateBuilder builder) {
            return builder.build();
        }
    }

    /** Calls its services at the same time, as the thesis's do, and answers when all have. */
    @RestController
    public static class Rest {
        private final RestTemplate rest;
        private final List<String> calls;
        private final ExecutorService executor;

        Rest(RestTemplate rest, Environment environment) {
            this.rest = rest;
            String all = environment.getRequiredProperty("bench.calls");
            calls = all.isEmpty() ? List.of() : List.of(all.split(","));
            ExecutorService plain = Executors.newFixedThreadPool(THREADS_FOR_CALLS);
            // What Sleuth's TraceCallable did: the span of the request goes along to the pool's thread.
            executor = ContextExecutorService.wrap(plain, ContextSnapshotFactory.builder().build()::captureAll);
        }

        @GetMapping("/rest/")
        public String get() throws Exception {
            List<Future<String>> answers = new ArrayList<>();
            for (String call : calls) {
                answers.add(executor.submit(() -> rest.getForObject(call, String.class)));
            }
            StringBuilder answer = new StringBuilder("ok");
            for (Future<String> each : answers) {
                answer.append(' ').append(each.get());
            }
            return answer.toString();
        }
    }
}
