package shop;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.concurrent.Executors;
import org.json.JSONArray;
import org.json.JSONObject;

/**
 * orders: turns a cart into an order. The JDK's own HTTP server with a fixed
 * thread pool, HttpURLConnection, and PostgreSQL through JDBC.
 */
public final class Orders {
    private static final String UNIQUE_VIOLATION = "23505";

    private final Web cart = new Web(System.getenv("CART_ADDRESS"));
    private final Web stock = new Web(System.getenv("STOCK_ADDRESS"));
    private final Web payments = new Web(System.getenv("PAYMENTS_ADDRESS"));
    private final Database database = new Database(System.getenv("POSTGRES_URL"), 16);

    record Answer(int status, JSONObject value) {
        static Answer error(int status, String text) {
            return new Answer(status, new JSONObject().put("error", text));
        }
    }

    private Answer order(JSONObject wanted) throws Exception {
        String key = wanted.getString("order_key");
        String customer = wanted.getString("customer");

        JSONArray lines = cart.call("GET", "/carts/" + customer, null).value().getJSONArray("lines");
        if (lines.isEmpty()) {
            return Answer.error(400, "the cart is empty");
        }
        int cents = 0;
        for (Object each : lines) {
            JSONObject line = (JSONObject) each;
            cents += line.getInt("price_cents") * line.getInt("quantity");
        }

        var reservation = new JSONObject().put("order_key", key).put("lines", lines);
        var reserved = stock.call("POST", "/reservations", reservation);
        if (reserved.status() != 200) {
            return new Answer(reserved.status(), reserved.value());
        }

        try {
            insert(key, customer, cents, lines);
        } catch (SQLException failure) {
            if (UNIQUE_VIOLATION.equals(failure.getSQLState())) {
                return Answer.error(409, "order " + key + " was placed before");
            }
            throw failure;
        }

        var payment = new JSONObject().put("order_key", key).put("card", wanted.getString("card"))
            .put("amount_cents", cents);
        var paid = payments.call("POST", "/payments", payment);
        if (paid.status() != 201) {
            database.update("UPDATE orders SET status = 'unpaid' WHERE order_key = ?", key);
            return paid.status() == 402
                ? Answer.error(402, "the card was declined")
                : Answer.error(500, "the payment failed");
        }

        database.update("UPDATE orders SET status = 'paid' WHERE order_key = ?", key);
        cart.call("DELETE", "/carts/" + customer, null);
        return new Answer(201, new JSONObject().put("order", key).put("total_cents", cents));
    }

    private void insert(String key, String customer, int cents, JSONArray lines) throws SQLException {
        database.transaction(transaction -> {
            transaction.update("INSERT INTO orders (order_key, customer, total_cents) VALUES (?, ?, ?)",
                key, customer, cents);
            for (Object each : lines) {
                JSONObject line = (JSONObject) each;
                transaction.update("INSERT INTO order_lines (order_key, product_id, quantity) VALUES (?, ?, ?)",
                    key, line.getInt("product"), line.getInt("quantity"));
            }
        });
    }

    private void handle(HttpExchange exchange) throws IOException {
        Calls.serving(exchange.getRequestURI().getQuery());
        Answer answer;
        try {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            answer = exchange.getRequestMethod().equals("POST")
                ? order(new JSONObject(body))
                : Answer.error(405, "POST an order");
        } catch (Exception failure) {
            failure.printStackTrace();
            answer = Answer.error(500, "internal error; see the log");
        }
        send(exchange, answer);
    }

    private static void send(HttpExchange exchange, Answer answer) throws IOException {
        byte[] data = answer.value().toString().getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(answer.status(), data.length);
        exchange.getResponseBody().write(data);
        exchange.close();
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(System.getenv("PORT"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 128);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/orders", new Orders()::handle);
        server.createContext("/health", exchange ->
            send(exchange, new Answer(200, new JSONObject().put("status", "ok"))));
        server.start();
    }
}
