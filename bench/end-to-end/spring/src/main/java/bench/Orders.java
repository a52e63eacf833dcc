package bench;

import java.util.List;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Profile;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestTemplate;

/** Orders and their lines, from the database, with the remaining stock, from stock. */
@RestController
@Profile("orders")
class Orders {
    private final JdbcTemplate database;
    private final RestTemplate rest;
    private final String stock;

    Orders(JdbcTemplate database, RestTemplate rest, @Value("${bench.stock}") String stock) {
        this.database = database;
        this.rest = rest;
        this.stock = stock;
    }

    @GetMapping("/orders/{id}")
    Map<String, ?> order(@PathVariable int id) {
        String customer = database.queryForObject("SELECT customer FROM orders WHERE id = ?", String.class, id);
        List<Map<String, Object>> lines =
                database.queryForList("SELECT product, quantity FROM lines WHERE order_id = ? ORDER BY product", id);
        for (Map<String, Object> line : lines) {
            line.put("stock", rest.getForObject(stock + "/stock/{product}", Map.class, line.get("product")));
        }
        return Map.of("id", id, "customer", customer, "lines", lines);
    }
}
