package io.spanwise.jvm;

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;

/** Takes the agent's batches (docs/jvm-format.md) in Spanwise's place. */
final class Receiver {
  /** A span as it was received. */
  record Span(
      int component, boolean failed, String name, String target, String peer, String error,
      int status, int clientPort, String trace, long id, long parent, long durationNano) {}

  static final Receiver ONE = new Receiver();

  private final List<Span> spans = new CopyOnWriteArrayList<>();
  private volatile String settings = "";
  private volatile long bytes;
  private final AtomicLong count = new AtomicLong();
  private final AtomicLong dropped = new AtomicLong();
  private volatile boolean keepsFew;
  private volatile boolean isBusy;

  private Receiver() {
    try {
      var address = new InetSocketAddress("127.0.0.1", Integer.getInteger("receiver"));
      HttpServer server = HttpServer.create(address, 0);
      server.createContext("/v1/jvm", exchange -> {
        byte[] body = exchange.getRequestBody().readAllBytes();
        if (isBusy) {
          exchange.sendResponseHeaders(503, -1);
          exchange.close();
          return;
        }
        byte[] answer = settings.getBytes(StandardCharsets.UTF_8);
        bytes += body.length;
        List<Span> taken = read(ByteBuffer.wrap(body), dropped);
        count.addAndGet(taken.size());
        if (keepsFew) {
          spans.clear();
        }
        spans.addAll(taken);
        exchange.sendResponseHeaders(200, answer.length == 0 ? -1 : answer.length);
        exchange.getResponseBody().write(answer);
        exchange.close();
      });
      server.start();
    } catch (java.io.IOException failure) {
      throw new IllegalStateException(failure);
    }
  }

  void answer(String settings) {
    this.settings = settings;
  }

  /** Keeps the last batch only, for tests that last. */
  void keepFew() {
    keepsFew = true;
  }

  /** Takes nothing while it is busy. */
  void busy(boolean isBusy) {
    this.isBusy = isBusy;
  }

  /** Spans that agents have dropped, as they say. */
  long dropped() {
    return dropped.get();
  }

  /** All spans that have come. */
  long count() {
    return count.get();
  }

  long bytes() {
    return bytes;
  }

  List<Span> all() {
    return List.copyOf(spans);
  }

  /** Waits for a span. */
  Span await(Predicate<Span> wanted) throws InterruptedException {
    long end = System.nanoTime() + 10_000_000_000L;
    while (System.nanoTime() < end) {
      for (Span span : spans) {
        if (wanted.test(span)) {
          return span;
        }
      }
      Thread.sleep(20);
    }
    throw new AssertionError("no such span among " + spans);
  }

  /** Waits until nothing has come for a while. */
  void awaitQuiet() throws InterruptedException {
    int before = -1;
    while (spans.size() != before) {
      before = spans.size();
      Thread.sleep(1_500);
    }
  }

  private static List<Span> read(ByteBuffer in, AtomicLong dropped) {
    if (in.getInt() != ('S' << 24 | 'W' << 16 | 'J' << 8 | 1)) {
      throw new IllegalArgumentException("no batch");
    }
    number(in);
    dropped.addAndGet(number(in) + number(in));
    for (long pairs = number(in); pairs > 0; pairs--) {
      text(in);
      text(in);
    }
    List<String> texts = new ArrayList<>();
    texts.add(null);
    for (long count = number(in); count > 0; count--) {
      texts.add(text(in));
    }
    List<String> traces = new ArrayList<>();
    for (long count = number(in); count > 0; count--) {
      traces.add(String.format("%016x%016x", in.getLong(), in.getLong()));
    }
    List<Span> spans = new ArrayList<>();
    for (long count = number(in); count > 0; count--) {
      int component = in.get();
      int flags = in.get();
      boolean failed = (flags & 1) != 0;
      String name = texts.get((int) number(in));
      String target = texts.get((int) number(in));
      String peer = texts.get((int) number(in));
      String error = failed ? texts.get((int) number(in)) : null;
      int status = (flags & 8) == 0 ? 0 : (int) number(in);
      int clientPort = (flags & 16) == 0 ? 0 : (int) number(in);
      String trace = traces.get((int) number(in));
      long id = in.getLong();
      long parent = 0;
      if ((flags & 2) != 0) {
        parent = in.getLong();
      } else if ((flags & 4) != 0) {
        parent = spans.get(spans.size() - (int) number(in)).id();
      }
      number(in);
      spans.add(new Span(
          component, failed, name, target, peer, error, status, clientPort, trace, id, parent, number(in)));
    }
    if (in.hasRemaining()) {
      throw new IllegalArgumentException("bytes follow");
    }
    return spans;
  }

  private static long number(ByteBuffer in) {
    long value = 0;
    for (int shift = 0; ; shift += 7) {
      byte next = in.get();
      value |= (long) (next & 127) << shift;
      if (next >= 0) {
        return value;
      }
    }
  }

  private static String text(ByteBuffer in) {
    byte[] bytes = new byte[(int) number(in)];
    in.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
