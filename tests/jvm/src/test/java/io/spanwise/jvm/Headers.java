package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.Map;

/** Other headers than those of the default, until it is closed. Tests of a class run one by one. */
final class Headers implements AutoCloseable {
  /** A message of a program's own with baggage, which all that follows takes with it. */
  static final String BAGGAGE = "user=7,plan=x";

  Headers(String propagation) throws ReflectiveOperationException {
    set(propagation);
  }

  private static void set(String propagation) throws ReflectiveOperationException {
    var method = Class.forName("io.spanwise.boot.Propagation", true, null).getDeclaredMethod("set", String.class);
    method.setAccessible(true);
    method.invoke(null, propagation);
  }

  /** What a message that was sent with `b3multi+baggage` has. */
  static void checkB3(Receiver.Span sent, Map<String, String> headers) {
    assertEquals(sent.trace(), headers.get("X-B3-TraceId"));
    assertEquals(String.format("%016x", sent.id()), headers.get("X-B3-SpanId"));
    assertEquals("1", headers.get("X-B3-Sampled"));
    assertEquals(BAGGAGE, headers.get("baggage"));
    assertNull(headers.get("traceparent"));
  }

  @Override
  public void close() throws ReflectiveOperationException {
    set("tracecontext+baggage");
  }
}
