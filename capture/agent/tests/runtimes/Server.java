import com.sun.net.httpserver.HttpServer;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;

/**
 * A server with a virtual thread for each request. Arguments: port, the backend's port, `url` for
 * calls by HttpURLConnection, `client` for calls by HttpClient; `threads` for a platform thread for
 * each request, which starts others for half of its calls.
 */
public class Server {
    static final HttpClient CLIENT = HttpClient.newHttpClient();

    static void one(URI uri, boolean byClient) throws Exception {
        if (byClient) {
            CLIENT.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
            return;
        }
        HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
        connection.getInputStream().readAllBytes();
    }

    /** Like `one`, on new threads that are started one after the other. */
    static Thread byThread(URI uri) {
        Thread thread = new Thread(() -> {
            try {
                one(uri, false);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        thread.start();
        return thread;
    }

    static void all(String begin, boolean byClient, boolean threads) throws Exception {
        List<Thread> started = new ArrayList<>();
        for (int number = 0; number < 6; number++) {
            URI uri = URI.create(begin + number);
            if (threads && number % 2 == 1) {
                started.add(byThread(uri));
            } else {
                one(uri, byClient);
            }
        }
        for (Thread thread : started) {
            thread.join();
        }
    }

    public static void main(String[] arguments) throws Exception {
        String backend = "http://127.0.0.1:" + arguments[1] + "/out/";
        boolean byClient = arguments[2].equals("client");
        int port = Integer.parseInt(arguments[0]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 1024);
        boolean threads = arguments[2].equals("threads");
        server.setExecutor(threads ? Executors.newCachedThreadPool() : Executors.newVirtualThreadPerTaskExecutor());
        server.createContext("/in/", exchange -> {
            String token = exchange.getRequestURI().getPath().substring(4);
            try {
                all(backend + token + "/", byClient, threads);
            } catch (Exception error) {
                throw new java.io.IOException(error);
            }
            exchange.sendResponseHeaders(200, 2);
            exchange.getResponseBody().write("ok".getBytes());
            exchange.close();
        });
        server.start();
    }
}
