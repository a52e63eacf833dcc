package bench.jmh;

import bench.tracing.Tracing;
import java.util.List;
import java.util.Map;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.cloud.client.loadbalancer.LoadBalanced;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestTemplate;

/**
 * The pet clinic: its gateway asks the service of owners, which Spring Cloud's discovery and load balancer find. Both
 * run in this process. A request makes a server's, a client's and another server's span.
 */
public class SpringCloud extends Scenario {
    private ConfigurableApplicationContext owners;
    private ConfigurableApplicationContext gateway;
    private Wire wire;

    @Override
    void build() throws Exception {
        owners = Spring.start(OwnersApplication.class, tracing, Map.of("spring.application.name", "owners"));
        gateway = Spring.start(GatewayApplication.class, tracing, Map.of(
                "spring.application.name", "gateway",
                "spring.cloud.discovery.client.simple.instances.owners[0].uri", "http://127.0.0.1:" + Spring.port(owners)));
        wire = new Wire(Spring.port(gateway), "/api/owners/1");
    }

    @Override
    void tearDown() throws Exception {
        wire.close();
        gateway.close();
        owners.close();
    }

    @Override
    Object work() throws Exception {
        return wire.get();
    }

    /** An owner and the pets. */
    public record Owner(int id, String name, List<String> pets) {}

    /** The service of owners. */
    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(Owners.class)
    public static class OwnersApplication {}

    /** Finds owners. */
    @RestController
    public static class Owners {
        @GetMapping("/owners/{id}")
        public Owner owner(@PathVariable int id) {
            return new Owner(id, "George Franklin", List.of("Leo", "Basil"));
        }
    }

    /** The gateway. */
    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(Gateway.class)
    public static class GatewayApplication {
        @Bean
        @LoadBalanced
        RestTemplate rest(Tracing tracing) {
            RestTemplate rest = new RestTemplate();
            var interceptor = tracing.client();
            if (interceptor != null) {
                rest.getInterceptors().add(interceptor);
            }
            return rest;
        }
    }

    /** Forwards to the service of owners. */
    @RestController
    public static class Gateway {
        private final RestTemplate rest;

        Gateway(RestTemplate rest) {
            this.rest = rest;
        }

        @GetMapping("/api/owners/{id}")
        public Owner owner(@PathVariable int id) {
            return rest.getForObject("http://owners/owners/{id}", Owner.class, id);
        }
    }
}
