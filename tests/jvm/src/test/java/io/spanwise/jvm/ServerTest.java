package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** A program with the agent, and the real server: `make test-jvm SPANWISE=PROGRAM`. */
@EnabledIfEnvironmentVariable(named = "SPANWISE", matches = ".+")
class ServerTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long PATIENCE_NANO = 30_000_000_000L;

  @TempDir Path data;

  private static JsonNode get(String url) throws Exception {
    return JSON.readTree(HttpClient.newHttpClient().send(
        HttpRequest.newBuilder(URI.create(url)).build(),
        HttpResponse.BodyHandlers.ofString()).body());
  }

  /** What an answer has once it has as much as is wanted. */
  private static JsonNode await(String url, String list, int wanted) throws Exception {
    long end = System.nanoTime() + PATIENCE_NANO;
    JsonNode last = null;
    while (System.nanoTime() < end) {
      try {
        last = get(url);
        if (last.path(list).size() >= wanted) {
          return last;
        }
      } catch (IOException notYet) {
        // The server starts.
      }
      Thread.sleep(100);
    }
    throw new AssertionError(url + " has " + last);
  }

  private static JsonNode one(JsonNode spans, String operation, String kind, String parent) {
    List<JsonNode> found = new ArrayList<>();
    for (JsonNode span : spans) {
      if (span.path("operation").asText().equals(operation)
          && span.path("kind").asText().equals(kind)
          && (parent == null || parent.equals(span.path("parent").asText()))) {
        found.add(span);
      }
    }
    assertEquals(1, found.size(), () -> operation + " in " + spans);
    return found.get(0);
  }

  @Test
  void aRequestIsStoredAsOneTree() throws Exception {
    int api = Shop.freePort();
    int spans = Shop.freePort();
    List<String> command = new ArrayList<>(List.of(
        System.getenv("SPANWISE"), "server", "--data", data.toString(),
        "--http", "127.0.0.1:" + api, "--otlp-http", "127.0.0.1:" + spans));
    for (String other : new String[] {
        "zipkin", "jaeger-grpc", "jaeger-http", "jaeger-udp-compact", "jaeger-udp-binary", "tempo"}) {
      command.addAll(List.of("--" + other, "off"));
    }
    command.addAll(List.of("--otlp-grpc", "127.0.0.1:" + Shop.freePort()));
    Process server = new ProcessBuilder(command)
        .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    try (Shop shop = new Shop(
        "-javaagent:" + System.getProperty("agent")
            + "=service=shop,endpoint=http://127.0.0.1:" + spans)) {
      String at = "http://127.0.0.1:" + api + "/api/v1/";
      await(at + "search", "warnings", 0);
      shop.get("/order?" + shop.at + "/called");

      JsonNode found = await(at + "search?service=shop", "traces", 1).path("traces");
      assertEquals(1, found.size(), found::toString);
      String id = found.get(0).path("trace_id").asText();
      JsonNode tree = await(at + "traces/" + id, "spans", 6).path("spans");
      assertEquals(6, tree.size(), tree::toString);
      JsonNode order = one(tree, "GET /order", "server", null);
      assertEquals(0, order.path("depth").asInt());
      assertEquals("shop", order.path("service").asText());
      int calls = 0;
      for (JsonNode span : tree) {
        String parent = span.path("parent").textValue();
        if (span == order) {
          continue;
        }
        assertNotNull(parent, span::toString);
        assertEquals("jvm", span.path("capture").asText());
        if (span.path("kind").asText().equals("client") && span.path("protocol").asText().equals("http")) {
          calls++;
          assertEquals(order.path("span_id").asText(), parent);
          JsonNode called = one(tree, "GET /called", "server", span.path("span_id").asText());
          assertEquals(2, called.path("depth").asInt());
          assertEquals(200, called.path("status_code").asInt());
        } else if (span.path("protocol").asText().equals("http")) {
          assertEquals("GET /called", span.path("operation").asText());
        } else {
          assertEquals(order.path("span_id").asText(), parent);
          assertEquals("client", span.path("kind").asText());
        }
      }
      assertEquals(2, calls);
    } finally {
      server.destroy();
      server.waitFor();
    }
  }
}
