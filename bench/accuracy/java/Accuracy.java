import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;

/**
 * The JDK's own server. STYLE chooses: `threads`, a thread for each request; `pool`, the thread
 * that read a request passes it to a fixed pool; `futures`, a chain of CompletableFutures;
 * `virtual`, a virtual thread for each request.
 */
public final class Accuracy {
  private static final int POOL = 32;
  private static final ExecutorService CALLS = executor();
  private static HttpClient client;

  private Accuracy() {}

  /** Virtual threads by reflection, because the compiler may be older than the JVM. */
  private static ExecutorService executor() {
    if (!Program.STYLE.equals("virtual")) {
      return Executors.newCachedThreadPool();
    }
    try {
      return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  private static byte[] call(String token) throws IOException {
    var connection = (HttpURLConnection) URI.create(Program.leafUrl(token)).toURL().openConnection();
    try (InputStream body = connection.getInputStream()) {
      return body.readAllBytes();
    }
  }

  private static byte[] joined(List<byte[]> replies) {
    StringBuilder all = new StringBuilder();
    replies.forEach(reply -> all.append(new String(reply)));
    return Program.work(all.toString().getBytes());
  }

  private static byte[] handle(String path) throws Exception {
    List<String> made = Program.tokens();
    List<byte[]> replies = new ArrayList<>();
    Program.work(path.getBytes());
    Program.pause();
    if (Program.PARALLEL) {
      List<Future<byte[]>> futures = new ArrayList<>();
      for (String token : made) {
        futures.add(CALLS.submit(() -> call(token)));
      }
      for (Future<byte[]> future : futures) {
        replies.add(future.get());
      }
    } else {
      for (String token : made) {
        replies.add(call(token));
        Program.pause();
      }
    }
    Program.note(path, made);
    return joined(replies);
  }

  private static void answer(HttpExchange exchange, byte[] body, Throwable error) {
    try (exchange) {
      if (error != null) {
        error.printStackTrace();
        exchange.sendResponseHeaders(500, -1);
        return;
      }
      exchange.sendResponseHeaders(200, body.length);
      exchange.getResponseBody().write(body);
    } catch (IOException gone) {
      gone.printStackTrace();
    }
  }

  private static void blocking(HttpExchange exchange) {
    byte[] body = null;
    Throwable failure = null;
    try {
      body = handle(exchange.getRequestURI().getPath());
    } catch (Exception error) {
      failure = error;
    }
    answer(exchange, body, failure);
  }

  /** Background calls, like a cache refresh. */
  private static void inBackground() {
    try {
      while (true) {
        String token = Program.tokens().get(0);
        Program.note("-", List.of(token));
        if (Program.STYLE.equals("futures")) {
          called(token).join();
        } else {
          call(token);
        }
        Thread.sleep(5);
      }
    } catch (IOException | InterruptedException error) {
      error.printStackTrace();
    }
  }

  private static CompletableFuture<byte[]> called(String token) {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(Program.leafUrl(token)));
    if (Program.FRESH) {
      request.header("Connection", "close");
    }
    return client.sendAsync(request.build(), BodyHandlers.ofByteArray()).thenApply(reply -> reply.body());
  }

  private static void chained(HttpExchange exchange) {
    String path = exchange.getRequestURI().getPath();
    List<String> made = Program.tokens();
    Executor later = CompletableFuture.delayedExecutor(1, TimeUnit.MILLISECONDS);
    var started = CompletableFuture.supplyAsync(() -> Program.work(path.getBytes()), later);
    CompletableFuture<List<byte[]>> replies;
    if (Program.PARALLEL) {
      replies = started.thenCompose(nothing -> {
        List<CompletableFuture<byte[]>> calls = made.stream().map(Accuracy::called).toList();
        return CompletableFuture.allOf(calls.toArray(CompletableFuture[]::new))
            .thenApply(all -> calls.stream().map(CompletableFuture::join).toList());
      });
    } else {
      replies = started
          .thenCompose(nothing -> called(made.get(0)))
          .thenApplyAsync(Program::work)
          .thenCompose(first -> called(made.get(1)).thenApply(second -> List.of(first, second)));
    }
    replies
        .thenApply(all -> {
          Program.note(path, made);
          return joined(all);
        })
        .whenComplete((body, error) -> answer(exchange, body, error));
  }

  public static void main(String[] arguments) throws Exception {
    SSLContext tls = Program.tls();
    var address = new InetSocketAddress("127.0.0.1", Program.PORT);
    HttpServer server;
    if (tls == null) {
      server = HttpServer.create(address, Program.BACKLOG);
      client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    } else {
      HttpsServer secure = HttpsServer.create(address, Program.BACKLOG);
      secure.setHttpsConfigurator(new HttpsConfigurator(tls));
      server = secure;
      HttpsURLConnection.setDefaultSSLSocketFactory(tls.getSocketFactory());
      client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).sslContext(tls).build();
    }
    server.setExecutor(executor());
    ExecutorService pool = Executors.newFixedThreadPool(POOL);
    server.createContext("/", switch (Program.STYLE) {
      case "pool" -> exchange -> pool.execute(() -> blocking(exchange));
      case "futures" -> Accuracy::chained;
      default -> Accuracy::blocking;
    });
    server.start();
    if (System.getenv("BACKGROUND") != null) {
      executor().execute(Accuracy::inBackground);
    }
  }
}
