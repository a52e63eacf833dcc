package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The agent in each Java of this host from 17 on, for which the tests are compiled. From 21 on, the
 * program's requests are virtual threads.
 */
class OtherJavaTest {
  private static final Path INSTALLED = Path.of("/usr/lib/jvm");
  private static final int FIRST_VIRTUAL = 21;
  private static final int REQUESTS = 100;
  private static final int AT_ONCE = 16;

  private static int feature(Path java) {
    Properties facts = new Properties();
    try (InputStream file = Files.newInputStream(java.resolve("release"))) {
      facts.load(file);
    } catch (IOException none) {
      return 0;
    }
    return Runtime.Version.parse(facts.getProperty("JAVA_VERSION").replace("\"", "")).feature();
  }

  static List<Path> javas() throws IOException {
    List<Path> found = new ArrayList<>();
    try (Stream<Path> all = Files.isDirectory(INSTALLED) ? Files.list(INSTALLED) : Stream.empty()) {
      for (Path each : all.toList()) {
        if (Files.isExecutable(each.resolve("bin/java")) && feature(each) >= 17) {
          Path java = each.toRealPath();
          if (!found.contains(java)) {
            found.add(java);
          }
        }
      }
    }
    return found.isEmpty() ? List.of(Path.of(System.getProperty("java.home"))) : found;
  }

  private static String trace(Path java, int request) {
    return String.format("%016x%016x", feature(java), 1 + request);
  }

  private static Callable<String[]> order(Shop shop, String trace) {
    return () -> Shop.ask(shop.at + "/order?" + shop.at + "/called",
        "traceparent", "00-" + trace + "-b7ad6b7169203331-01").trim().split("\n");
  }

  @ParameterizedTest
  @MethodSource("javas")
  void bothCallsOfARequestAreInItsTrace(Path java) throws Exception {
    List<String> options = new ArrayList<>(List.of("-javaagent:" + System.getProperty("agent")
        + "=service=other,endpoint=http://127.0.0.1:" + Integer.getInteger("receiver")));
    if (feature(java) >= FIRST_VIRTUAL) {
      options.add("-Dshop.virtual=true");
    }
    Receiver.ONE.all();
    var pool = Executors.newFixedThreadPool(AT_ONCE);
    try (Shop shop = new Shop(java, ProcessBuilder.Redirect.INHERIT, options.toArray(new String[0]))) {
      List<Callable<String[]>> all = new ArrayList<>();
      for (int request = 0; request < REQUESTS; request++) {
        all.add(order(shop, trace(java, request)));
      }
      int request = 0;
      for (var answer : pool.invokeAll(all)) {
        String[] headers = answer.get();
        assertEquals(2, headers.length);
        assertNotEquals(headers[0], headers[1]);
        String trace = trace(java, request++);
        for (String header : headers) {
          assertEquals(trace, header.split("-").length > 1 ? header.split("-")[1] : header);
        }
        // The statement, both calls and their answers.
        var server = Receiver.ONE.await(span ->
            span.component() == 1 && "/order".equals(span.target()) && span.trace().equals(trace));
        Receiver.ONE.await(span -> span.component() == 3 && span.parent() == server.id());
        for (String header : headers) {
          long id = Long.parseUnsignedLong(header.split("-")[2], 16);
          Receiver.ONE.await(span -> span.component() == 2 && span.id() == id && span.parent() == server.id());
          Receiver.ONE.await(span -> span.component() == 1 && span.parent() == id);
        }
      }
    } finally {
      pool.shutdown();
    }
  }
}
