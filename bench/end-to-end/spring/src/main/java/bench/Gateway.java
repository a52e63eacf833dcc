package bench;

import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Profile;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestTemplate;

/** The front, which forwards to orders. */
@RestController
@Profile("gateway")
class Gateway {
    private final RestTemplate rest;
    private final String orders;

    Gateway(RestTemplate rest, @Value("${bench.orders}") String orders) {
        this.rest = rest;
        this.orders = orders;
    }

    @GetMapping("/orders/{id}")
    Map<?, ?> order(@PathVariable int id) {
        return rest.getForObject(orders + "/orders/{id}", Map.class, id);
    }
}
