package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The agent beside the OpenTelemetry agent: it leaves spans to that one, and says so. */
class AsideTest {
  private static final String TRACE = "0af7651916cd43dd8448eb211c80319c";

  @TempDir Path directory;

  private static Path otherAgent() throws Exception {
    Path jar = Path.of(System.getProperty("otel.agent"));
    assertTrue(Files.exists(jar), () -> jar + " is missing");
    return jar;
  }

  @Test
  void spansAreThoseOfTheOtherAgent() throws Exception {
    Receiver.ONE.all();
    String ours = "-javaagent:" + System.getProperty("agent")
        + "=service=aside,endpoint=http://127.0.0.1:" + Integer.getInteger("receiver");
    String theirs = "-javaagent:" + otherAgent();
    String[][] orders = {{ours, theirs}, {theirs, ours}};
    for (String[] order : orders) {
      Path said = directory.resolve("said");
      try (Shop shop = new Shop(Path.of(System.getProperty("java.home")), ProcessBuilder.Redirect.to(said.toFile()),
          order[0], order[1], "-Dotel.traces.exporter=none", "-Dotel.metrics.exporter=none",
          "-Dotel.logs.exporter=none")) {
        long before = Receiver.ONE.count();
        String[] headers = Shop.ask(shop.at + "/order?" + shop.at + "/called",
            "traceparent", "00-" + TRACE + "-b7ad6b7169203331-01").trim().split("\n");
        assertEquals(2, headers.length);
        for (String header : headers) {
          assertEquals(TRACE, header.split("-").length > 1 ? header.split("-")[1] : header);
        }
        Thread.sleep(2_000);
        assertEquals(before, Receiver.ONE.count());
        String text = Files.readString(said);
        assertTrue(text.contains("stands aside: the OpenTelemetry agent records this program's spans"), text);
      }
    }
  }
}
