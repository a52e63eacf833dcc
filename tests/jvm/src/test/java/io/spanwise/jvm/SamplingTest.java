package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URI;
import org.junit.jupiter.api.Test;

/** What is kept and sent, in a virtual machine of its own. */
class SamplingTest {
  private static final Receiver RECEIVER = Receiver.ONE;
  private static final int FAILURES = 200;
  private static final int SUCCESSES = 2000;
  private static final long SETTINGS_MILLIS = 1_000;
  private static final long PATIENCE_NANO = 60_000_000_000L;

  private static long count(String path) {
    return RECEIVER.all().stream().filter(span -> path.equals(span.target())).count();
  }

  @Test
  void failuresAreKeptAndSpansAreSmall() throws Exception {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.createContext("/", exchange -> {
      boolean bad = exchange.getRequestURI().getPath().startsWith("/bad");
      exchange.sendResponseHeaders(bad ? 500 : 200, -1);
      exchange.close();
    });
    server.start();
    String at = "http://127.0.0.1:" + server.getAddress().getPort();

    RECEIVER.answer("sampling 1\n");
    call(at, "/bad-begin", 1);
    RECEIVER.await(span -> "/bad-begin".equals(span.target()));
    Thread.sleep(SETTINGS_MILLIS);
    long bytes = RECEIVER.bytes();
    int before = RECEIVER.all().size();
    call(at, "/all", 500);
    call(at, "/bad-end", 1);
    RECEIVER.await(span -> "/bad-end".equals(span.target()));
    assertEquals(500, count("/all"));
    double each = (double) (RECEIVER.bytes() - bytes) / (RECEIVER.all().size() - before);
    System.out.printf("figure jvm.wire_bytes_per_span %.1f B%n", each);
    assertTrue(each <= 60, () -> each + " bytes a span");

    RECEIVER.answer("sampling 1000\n");
    // The answer to the first of them is taken before the second is sent.
    for (String path : new String[] {"/bad-first", "/bad-second"}) {
      call(at, path, 1);
      RECEIVER.await(span -> path.equals(span.target()));
    }
    for (int failure = 0; failure < FAILURES; failure++) {
      call(at, "/few", SUCCESSES / FAILURES);
      call(at, "/bad", 1);
    }
    call(at, "/bad-last", 1);
    RECEIVER.await(span -> "/bad-last".equals(span.target()));
    System.out.printf("figure jvm.failures_kept_share %.4f 1%n", (double) count("/bad") / FAILURES);
    assertEquals(FAILURES, count("/bad"));
    // Of 2000 traces, 1 in 1000 is kept.
    assertTrue(count("/few") < 20, () -> count("/few") + " of " + SUCCESSES);
    server.stop(0);
  }

  /** With nothing to send, the agent asks for its settings all the same, so hooks can come back. */
  @Test
  void hooksAreTurnedOffAndOnAgain() throws Exception {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.createContext("/", exchange -> {
      exchange.sendResponseHeaders(exchange.getRequestURI().getPath().startsWith("/bad") ? 500 : 200, -1);
      exchange.close();
    });
    server.start();
    String at = "http://127.0.0.1:" + server.getAddress().getPort();
    RECEIVER.answer("sampling 1\nhooks_off http_client\n");
    // Failures are kept, whatever the sampling is.
    call(at, "/bad-before", 1);
    RECEIVER.await(span -> "/bad-before".equals(span.target()));
    Thread.sleep(SETTINGS_MILLIS);
    RECEIVER.answer("hooks_off\n");
    call(at, "/off", 10);
    long end = System.nanoTime() + PATIENCE_NANO;
    while (count("/on") == 0 && System.nanoTime() < end) {
      Thread.sleep(SETTINGS_MILLIS);
      call(at, "/on", 1);
    }
    assertEquals(0, count("/off"));
    assertTrue(count("/on") > 0, "the hooks stay off");
    server.stop(0);
  }

  private static void call(String at, String path, int times) throws Exception {
    for (int time = 0; time < times; time++) {
      var connection = (HttpURLConnection) URI.create(at + path).toURL().openConnection();
      assertEquals(path.startsWith("/bad") ? 500 : 200, connection.getResponseCode());
    }
  }
}
