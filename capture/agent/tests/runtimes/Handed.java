import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/**
 * A server that hands each request's work to other threads, and makes no background calls.
 * Arguments: port, the backend's port, and how. Runs on JDK 17.
 */
public class Handed {
    static final int CALLS = 6;
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    static final ExecutorService POOL = Executors.newFixedThreadPool(16);
    static final ScheduledExecutorService LATER = Executors.newScheduledThreadPool(8);
    static String backend;

    static void call(String token, int number) {
        try {
            var connection = (HttpURLConnection) URI.create(backend + token + "/" + number).toURL().openConnection();
            connection.getInputStream().readAllBytes();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    static CompletableFuture<String> ask(String token, int number) {
        var request = HttpRequest.newBuilder(URI.create(backend + token + "/" + number)).build();
        return CLIENT.sendAsync(request, HttpResponse.BodyHandlers.ofString()).thenApply(HttpResponse::body);
    }

    static void answer(HttpExchange exchange) {
        try (exchange) {
            exchange.sendResponseHeaders(200, 2);
            exchange.getResponseBody().write("ok".getBytes());
        } catch (IOException error) {
            error.printStackTrace();
        }
    }

    static void all(String token) {
        for (int number = 0; number < CALLS; number++) {
            call(token, number);
        }
    }

    static void later(HttpExchange exchange, String token, int number) {
        if (number == CALLS) {
            answer(exchange);
            return;
        }
        LATER.schedule(() -> {
            call(token, number);
            later(exchange, token, number + 1);
        }, 1, TimeUnit.MILLISECONDS);
    }

    static void serve(String how, HttpExchange exchange) throws Exception {
        String token = exchange.getRequestURI().getPath().substring(4);
        switch (how) {
            case "pool" -> POOL.execute(() -> {
                all(token);
                answer(exchange);
            });
            case "futures" -> {
                CompletableFuture<String> last = CompletableFuture.supplyAsync(() -> "");
                for (int number = 0; number < CALLS; number++) {
                    int which = number;
                    last = last.thenComposeAsync(before -> ask(token, which));
                }
                last.whenComplete((body, error) -> answer(exchange));
            }
            case "client" -> {
                for (int number = 0; number < CALLS; number++) {
                    ask(token, number).join();
                }
                answer(exchange);
            }
            case "parallel" -> {
                List<Future<?>> calls = new ArrayList<>();
                for (int number = 0; number < CALLS; number++) {
                    int which = number;
                    calls.add(POOL.submit(() -> call(token, which)));
                }
                for (Future<?> each : calls) {
                    each.get();
                }
                answer(exchange);
            }
            case "stream" -> {
                IntStream.range(0, CALLS).parallel().forEach(number -> call(token, number));
                answer(exchange);
            }
            case "thread" -> {
                List<Thread> calls = new ArrayList<>();
                for (int number = 0; number < CALLS; number++) {
                    int which = number;
                    calls.add(new Thread(() -> call(token, which)));
                    calls.get(number).start();
                }
                for (Thread each : calls) {
                    each.join();
                }
                answer(exchange);
            }
            case "later" -> later(exchange, token, 0);
            default -> throw new IllegalArgumentException(how);
        }
    }

    static void inBackground() {
        try {
            for (int number = 0; ; number++) {
                call("none", number);
                Thread.sleep(2);
            }
        } catch (InterruptedException error) {
            error.printStackTrace();
        }
    }

    static ExecutorService executor(String how) throws ReflectiveOperationException {
        return how.startsWith("virtual")
            ? (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null)
            : Executors.newCachedThreadPool();
    }

    public static void main(String[] arguments) throws Exception {
        backend = "http://127.0.0.1:" + arguments[1] + "/out/";
        int port = Integer.parseInt(arguments[0]);
        String how = arguments[2];
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 1024);
        ExecutorService executor = executor(how);
        server.setExecutor(executor);
        server.createContext("/in/", exchange -> {
            try {
                if (how.startsWith("virtual")) {
                    // By virtual threads that the request's own thread starts.
                    String token = exchange.getRequestURI().getPath().substring(4);
                    List<Future<?>> calls = new ArrayList<>();
                    for (int number = 0; number < CALLS; number++) {
                        int which = number;
                        calls.add(executor.submit(() -> call(token, which)));
                    }
                    for (Future<?> each : calls) {
                        each.get();
                    }
                    answer(exchange);
                } else {
                    serve(how, exchange);
                }
            } catch (Exception error) {
                throw new IOException(error);
            }
        });
        Thread background = new Thread(Handed::inBackground);
        background.setDaemon(true);
        background.start();
        server.start();
    }
}
