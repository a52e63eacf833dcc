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

    call(at, "/all", 500);
    call(at, "/bad-end", 1);
    RECEIVER.await(span -> "/bad-end".equals(span.target()));
    assertEquals(500, count("/all"));
    double each = (double) RECEIVER.bytes() / RECEIVER.all().size();
    System.out.printf("figure jvm.wire_bytes_per_span %.1f B%n", each);
    assertTrue(each <= 60, () -> each + " bytes a span");

    RECEIVER.answer("sampling 4000\n");
    // The answer to the first of them is taken before the second is sent.
    for (String path : new String[] {"/bad-first", "/bad-second"}) {
      call(at, path, 1);
      RECEIVER.await(span -> path.equals(span.target()));
    }
    for (int round = 0; round < 20; round++) {
      call(at, "/few", 20);
      call(at, "/bad", 1);
    }
    call(at, "/bad-last", 1);
    RECEIVER.await(span -> "/bad-last".equals(span.target()));
    assertEquals(20, count("/bad"));
    // 400 traces, of which 1 in 4000 is kept.
    assertTrue(count("/few") < 10, () -> count("/few") + " of 400");
    server.stop(0);
  }

  private static void call(String at, String path, int times) throws Exception {
    for (int time = 0; time < times; time++) {
      var connection = (HttpURLConnection) URI.create(at + path).toURL().openConnection();
      assertEquals(path.startsWith("/bad") ? 500 : 200, connection.getResponseCode());
    }
  }
}
