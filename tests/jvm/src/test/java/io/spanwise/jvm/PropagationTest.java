package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** B3 and baggage, from the caller through a server on servlets and two of its clients. */
class PropagationTest {
  private static final String HIGH = "463ac35c9f6413ad";
  private static final String LOW = "48485a3953bb6124";
  private static final String SPAN = "a2fb4a1d1a96d312";

  /** The headers that both clients of the shop have sent for a request with these. */
  private static Map<String, String> passedOn(String propagation, String... headers) throws Exception {
    // It must listen before the shop ends and sends its last spans.
    Receiver.ONE.all();
    var sent = new java.util.concurrent.CopyOnWriteArrayList<Map<String, String>>();
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.createContext("/", exchange -> {
      Map<String, String> all = new TreeMap<>();
      exchange.getRequestHeaders().forEach((name, values) ->
          all.put(name.toLowerCase(Locale.ROOT), String.join(",", values)));
      sent.add(all);
      byte[] answer = "ok".getBytes(StandardCharsets.UTF_8);
      exchange.sendResponseHeaders(200, answer.length);
      exchange.getResponseBody().write(answer);
      exchange.close();
    });
    server.start();
    try (Shop shop = new Shop("-javaagent:" + System.getProperty("agent")
        + "=service=b3,endpoint=http://127.0.0.1:" + Integer.getInteger("receiver")
        + (propagation.isEmpty() ? "" : ",propagation=" + propagation))) {
      Shop.ask(shop.at + "/order?http://127.0.0.1:" + server.getAddress().getPort() + "/", headers);
    } finally {
      server.stop(0);
    }
    assertEquals(2, sent.size());
    for (String header : new String[] {"baggage", "x-b3-traceid", "x-b3-sampled"}) {
      assertEquals(sent.get(0).get(header), sent.get(1).get(header));
    }
    return sent.get(0);
  }

  @Test
  void oneHeader() throws Exception {
    var sent = passedOn("b3", "b3", HIGH + LOW + "-" + SPAN + "-1-" + LOW, "baggage", "a=b");
    assertTrue(sent.get("b3").matches(HIGH + LOW + "-[0-9a-f]{16}-1"), sent::toString);
    assertFalse(sent.get("b3").contains(SPAN));
    assertFalse(sent.containsKey("traceparent") || sent.containsKey("baggage"), sent::toString);
    var server = Receiver.ONE.await(span -> span.component() == 1 && span.trace().equals(HIGH + LOW));
    assertEquals(Long.parseUnsignedLong(SPAN, 16), server.parent());
  }

  @Test
  void severalHeadersAndIdsOf64Bits() throws Exception {
    var sent = passedOn("b3multi+baggage",
        "X-B3-TraceId", LOW, "X-B3-SpanId", SPAN, "X-B3-Sampled", "0", "baggage", "user=7,plan=x;p=1");
    assertEquals(LOW, sent.get("x-b3-traceid"));
    assertEquals("0", sent.get("x-b3-sampled"));
    assertTrue(sent.get("x-b3-spanid").matches("[0-9a-f]{16}"), sent::toString);
    assertFalse(sent.containsKey("traceparent"), sent::toString);
    assertEquals("user=7,plan=x;p=1", sent.get("baggage"));
  }

  @Test
  void whatIsWrongOrTooMuchIsNotPassedOn() throws Exception {
    StringBuilder many = new StringBuilder("k0=v");
    for (int each = 1; each < 100; each++) {
      many.append(",k").append(each).append("=v");
    }
    var sent = passedOn("b3multi+b3+baggage",
        "X-B3-TraceId", LOW, "X-B3-SpanId", "none", "b3", "0", "baggage", many.toString());
    assertFalse(sent.get("x-b3-traceid").endsWith(LOW), sent::toString);
    assertEquals(64, sent.get("baggage").split(",").length);
    assertTrue(sent.get("baggage").endsWith("k63=v"));
  }

  @Test
  void theDefaultIsOfW3c() throws Exception {
    var sent = passedOn("", "traceparent", "00-" + HIGH + LOW + "-" + SPAN + "-01", "b3", LOW + "-" + SPAN, "baggage", "a=b");
    assertTrue(sent.get("traceparent").startsWith("00-" + HIGH + LOW), sent::toString);
    assertEquals("a=b", sent.get("baggage"));
    assertFalse(sent.containsKey("b3") || sent.containsKey("x-b3-traceid"), sent::toString);
  }

  /** Our header's form of an id. */
  private static String compact(String hex) {
    byte[] bytes = new byte[9];
    System.arraycopy(java.util.HexFormat.of().parseHex(hex), 0, bytes, 1, 8);
    // 72 bits are 12 digits, of which an id has the last 11.
    return java.util.Base64.getUrlEncoder().encodeToString(bytes).substring(1);
  }

  @Test
  void ourOwnHeader() throws Exception {
    // A trace that began elsewhere has all of its id there.
    var sent = passedOn("compact", "spanwise", "1" + compact(SPAN) + compact(LOW) + compact(HIGH));
    assertEquals(34, sent.get("spanwise").length());
    assertTrue(sent.get("spanwise").startsWith("1"), sent::toString);
    assertTrue(sent.get("spanwise").endsWith(compact(LOW) + compact(HIGH)), sent::toString);
    assertFalse(sent.containsKey("traceparent") || sent.containsKey("baggage"), sent::toString);
    var server = Receiver.ONE.await(span -> span.component() == 1
        && span.trace().equals(HIGH + LOW) && span.parent() == Long.parseUnsignedLong(SPAN, 16));
    assertEquals("/order", server.target());
  }

  @Test
  void ourOwnHeaderIsShortAndRefusesWhatItIsNot() throws Exception {
    for (String wrong : new String[] {
        // An id of more than 64 bits, and none.
        "1z" + compact(SPAN).substring(1) + compact(LOW), "1" + compact("0".repeat(16)) + compact(LOW)}) {
      var sent = passedOn("compact", "spanwise", wrong);
      assertEquals(23, sent.get("spanwise").length());
      assertFalse(sent.get("spanwise").endsWith(compact(LOW)), wrong);
    }
  }

  @Test
  void othersWithTheDefaultUnderstandIt() throws Exception {
    var sent = passedOn("", "spanwise", "0" + compact(SPAN) + compact(LOW));
    assertTrue(sent.get("traceparent").matches("00-[0-9a-f]{16}" + LOW + "-[0-9a-f]{16}-00"), sent::toString);
    assertFalse(sent.containsKey("spanwise"), sent::toString);
    // What others write is preferred, and still understood by those who write ours.
    sent = passedOn("tracecontext+compact", "traceparent", "00-" + HIGH + LOW + "-" + SPAN + "-01",
        "spanwise", "0" + compact(SPAN) + compact(SPAN));
    assertTrue(sent.get("traceparent").startsWith("00-" + HIGH + LOW), sent::toString);
    assertTrue(sent.get("spanwise").endsWith(compact(LOW) + compact(HIGH)), sent::toString);
  }
}
