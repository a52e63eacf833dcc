package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * A program with the agent while the kernel side looks on: what both see is one tree. Needs root and
 * a redis-server: `make test-jvm SPANWISE=PROGRAM`.
 */
@EnabledIfEnvironmentVariable(named = "SPANWISE", matches = ".+")
@EnabledIfSystemProperty(named = "user.name", matches = "root")
class JoinedTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final HttpClient CLIENT = HttpClient.newHttpClient();
  private static final long PATIENCE_NANO = 60_000_000_000L;
  private static final int REQUESTS = 200;
  private static final int AT_ONCE = 8;

  @TempDir Path data;

  private static JsonNode get(String url) throws Exception {
    return JSON.readTree(CLIENT.send(
        HttpRequest.newBuilder(URI.create(url)).build(),
        HttpResponse.BodyHandlers.ofString()).body());
  }

  /** Waits until the answer has what is wanted. */
  private static JsonNode await(String url, java.util.function.Predicate<JsonNode> wanted)
      throws Exception {
    long end = System.nanoTime() + PATIENCE_NANO;
    JsonNode last = null;
    while (System.nanoTime() < end) {
      try {
        last = get(url);
        if (wanted.test(last)) {
          return last;
        }
      } catch (IOException notYet) {
        // The server starts.
      }
      Thread.sleep(200);
    }
    throw new AssertionError(url + " has " + last);
  }

  private static Process start(List<String> command, Path log) throws IOException {
    return new ProcessBuilder(command)
        .redirectErrorStream(true).redirectOutput(log.toFile()).start();
  }

  private static void stop(Process process) throws InterruptedException {
    process.destroy();
    process.waitFor();
  }

  @Test
  void whatTheKernelAndTheAgentSeeIsOneTree() throws Exception {
    int api = Shop.freePort();
    int spans = Shop.freePort();
    int cache = Shop.freePort();
    List<String> command = new ArrayList<>(List.of(
        System.getenv("SPANWISE"), "up", "--data", data.resolve("store").toString(),
        "--http", "127.0.0.1:" + api, "--otlp-http", "127.0.0.1:" + spans));
    for (String other : new String[] {
        "zipkin", "jaeger-grpc", "jaeger-http", "jaeger-udp-compact", "jaeger-udp-binary", "tempo"}) {
      command.addAll(List.of("--" + other, "off"));
    }
    command.addAll(List.of("--otlp-grpc", "127.0.0.1:" + Shop.freePort()));
    Path log = data.resolve("spanwise.log");
    Process server = start(command, log);
    Process redis = start(
        List.of("redis-server", "--port", "" + cache, "--save", "", "--dir", data.toString()),
        data.resolve("redis.log"));
    String at = "http://127.0.0.1:" + api + "/api/v1/";
    ExecutorService users = Executors.newFixedThreadPool(AT_ONCE);
    try (Shop shop = new Shop(
        "-javaagent:" + System.getProperty("agent")
            + "=service=shop,endpoint=http://127.0.0.1:" + spans)) {
      await(at + "status", status -> status.path("agent").path("state").asText().equals("running"));
      assertEquals("+PONG", shop.get("/cached?" + cache));
      // The table of tasks is looked for some seconds after a program starts.
      Thread.sleep(5_000);

      List<Callable<String>> asked = new ArrayList<>();
      for (int request = 0; request < REQUESTS; request++) {
        asked.add(() -> shop.get("/cached?" + cache));
      }
      for (var answer : users.invokeAll(asked)) {
        assertEquals("+PONG", answer.get());
      }
      JsonNode found = await(
          at + "search?operation=PING&limit=500&service=shop",
          answer -> answer.path("traces").size() > REQUESTS);

      int joined = 0;
      Map<String, Integer> other = new HashMap<>();
      for (JsonNode trace : found.path("traces")) {
        JsonNode tree = get(at + "traces/" + trace.path("trace_id").asText()).path("spans");
        String shape = shape(tree);
        if (shape.equals("server-process GET trace_header|enclosing > jvm GET > current_span PING")) {
          joined++;
        } else {
          other.merge(shape, 1, Integer::sum);
        }
      }
      int seen = joined;
      assertTrue(seen >= REQUESTS, () -> seen + " of " + REQUESTS + ", others " + other
          + "\n" + read(log));
    } finally {
      users.shutdown();
      stop(redis);
      stop(server);
    }
  }

  private static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException failure) {
      return failure.toString();
    }
  }

  /** How the call to Redis hangs in its tree. */
  private static String shape(JsonNode tree) {
    Map<String, JsonNode> byId = new HashMap<>();
    for (JsonNode span : tree) {
      byId.put(span.path("span_id").asText(), span);
    }
    for (JsonNode call : tree) {
      if (!call.path("operation").asText().equals("PING")
          || !call.path("capture").asText().equals("client-process")) {
        continue;
      }
      JsonNode work = byId.get(call.path("parent").asText());
      JsonNode request = work == null ? null : byId.get(work.path("parent").asText());
      if (work == null || request == null) {
        return "broken: " + tree;
      }
      boolean sure = call.path("confidence").asDouble() == 1 && work.path("confidence").asDouble() == 1;
      String above = work.path("evidence").asText();
      boolean isKnown = above.equals("enclosing") || above.equals("trace_header");
      return request.path("capture").asText() + " GET "
          + (isKnown ? "trace_header|enclosing" : above) + " > "
          + work.path("capture").asText() + " GET > "
          + call.path("evidence").asText() + (sure ? " PING" : " PING, a guess");
    }
    return "no call";
  }
}
