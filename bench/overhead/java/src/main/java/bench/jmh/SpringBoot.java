package bench.jmh;

import java.util.List;
import java.util.Map;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;

/** Billing: an invoice from a controller of Spring Boot, as JSON, called through HTTP. */
public class SpringBoot extends Scenario {
    private ConfigurableApplicationContext context;
    private Wire wire;

    @Override
    void build() throws Exception {
        context = Spring.start(Application.class, tracing, Map.of("spring.cloud.loadbalancer.enabled", false));
        wire = new Wire(Spring.port(context), "/invoices/7");
    }

    @Override
    void tearDown() throws Exception {
        wire.close();
        context.close();
    }

    @Override
    Object work() throws Exception {
        return wire.get();
    }

    /** The application. */
    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(Billing.class)
    public static class Application {}

    /** An invoice and its lines. */
    public record Invoice(int id, String customer, List<Integer> cents, int total) {}

    /** Makes invoices. */
    @RestController
    public static class Billing {
        @GetMapping("/invoices/{id}")
        public Invoice invoice(@PathVariable int id) {
            List<Integer> cents = List.of(id * 100, id * 250, 999);
            return new Invoice(id, "customer " + id, cents, cents.stream().mapToInt(Integer::intValue).sum());
        }
    }
}
