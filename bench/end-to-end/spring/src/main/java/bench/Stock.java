package bench;

import java.util.Map;
import org.springframework.context.annotation.Profile;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;

/** The remaining stock of a product. */
@RestController
@Profile("stock")
class Stock {
    private final JdbcTemplate database;

    Stock(JdbcTemplate database) {
        this.database = database;
    }

    @GetMapping("/stock/{product}")
    Map<String, Object> stock(@PathVariable int product) {
        return database.queryForMap("SELECT name, pieces FROM products WHERE id = ?", product);
    }
}
