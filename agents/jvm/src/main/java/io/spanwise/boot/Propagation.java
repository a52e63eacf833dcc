package io.spanwise.boot;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The headers by which programs tell one another of a trace: {@code traceparent}, B3 (one header or
 * several), {@link Compact ours} and {@code baggage}. The setting {@code propagation} chooses those
 * that are read and written.
 */
public final class Propagation {
  static final String DEFAULT = "tracecontext,baggage";
  /** Limits of W3C Baggage ("Limits"). */
  private static final int MOST_BAGGAGE_CHARACTERS = 8192;
  private static final int MOST_BAGGAGE_MEMBERS = 64;

  private static final String TRACEPARENT = "traceparent";
  private static final String BAGGAGE = "baggage";
  private static final String B3 = "b3";
  private static final String B3_TRACE = "X-B3-TraceId";
  private static final String B3_SPAN = "X-B3-SpanId";
  private static final String B3_SAMPLED = "X-B3-Sampled";
  private static final String B3_FLAGS = "X-B3-Flags";
  private static final String COMPACT = "spanwise";
  private static final String[] ONLY_BAGGAGE = {BAGGAGE};
  private static final String[] NOTHING = {};

  static volatile boolean w3c = true;
  /** Traces that begin here have ids that the compact header can shorten. */
  private static volatile boolean isCompact;
  /** Headers that are written. Never changed in place. */
  private static volatile String[] written = {TRACEPARENT, BAGGAGE};
  /** Headers that are read, apart from {@code traceparent}. */
  private static volatile String[] read = {BAGGAGE, COMPACT};
  /** Headers that are read although the parent is known. Never changed in place. */
  private static volatile String[] readBesides = ONLY_BAGGAGE;

  private Propagation() {}

  /** Takes the setting. */
  static void set(String setting) {
    List<String> writes = new ArrayList<>();
    List<String> reads = new ArrayList<>();
    boolean traceparent = false;
    boolean compact = false;
    boolean baggage = false;
    for (String each : setting.trim().split("[ ,+]+")) {
      switch (each) {
        case "tracecontext":
          traceparent = true;
          writes.add(TRACEPARENT);
          break;
        case "compact":
          compact = true;
          writes.add(COMPACT);
          break;
        case "b3":
          writes.add(B3);
          reads.add(B3);
          break;
        case "b3multi":
          writes.add(B3_TRACE);
          writes.add(B3_SPAN);
          writes.add(B3_SAMPLED);
          // The span first: without it, the trace does not count.
          reads.add(B3_SPAN);
          reads.add(B3_TRACE);
          reads.add(B3_SAMPLED);
          reads.add(B3_FLAGS);
          break;
        case "baggage":
          baggage = true;
          writes.add(BAGGAGE);
          reads.add(BAGGAGE);
          break;
        case "none":
          break;
        default:
          Log.say("propagation is of tracecontext, compact, b3, b3multi and baggage, or none; not " + each);
      }
    }
    // Whoever reads traceparent understands our own callers, too, so that they can change first.
    if (compact || traceparent) {
      reads.add(COMPACT);
    }
    isCompact = compact;
    readBesides = baggage ? ONLY_BAGGAGE : NOTHING;
    written = writes.toArray(new String[0]);
    read = reads.toArray(new String[0]);
    w3c = traceparent;
  }

  /** The headers to write. Those without a value are left out. */
  public static String[] written() {
    return written;
  }

  /** The headers to read after {@link Trace#receive}, each with {@link #read(String, Span, String)}. */
  public static String[] read(Span span) {
    return span != null && span.parent != 0 ? readBesides : read;
  }

  /**
   * Whether a header takes the place of one that the request has. Ids do: they may be those of a
   * request that a proxy passes on. Baggage of the program's own stays.
   */
  public static boolean replaces(String header) {
    return !BAGGAGE.equals(header);
  }

  /** Whose work a message is, as its headers say. Null if they do not. */
  static Span producer(Map<String, ?> headers) {
    if (headers == null || headers.isEmpty()) {
      return null;
    }
    Span producer = new Span();
    String traceparent = text(headers.get(TRACEPARENT));
    if (traceparent != null && w3c) {
      W3c.read(traceparent, producer);
    }
    for (String header : read(producer)) {
      read(header, producer, text(headers.get(header)));
    }
    return producer.parent == 0 && producer.baggage == null ? null : producer;
  }

  /** RabbitMQ has a type of its own for texts. */
  private static String text(Object value) {
    return value == null ? null : value.toString();
  }

  /** The high half of the id of a trace that begins here. */
  static long high(Lane lane, long low) {
    return isCompact ? Compact.high(low) : lane.nextId();
  }

  /** Whether a header may be one of those that {@link #producer} wants. */
  static boolean isRead(String header) {
    if (TRACEPARENT.equals(header)) {
      return true;
    }
    for (String each : read) {
      if (each.equals(header)) {
        return true;
      }
    }
    return false;
  }

  /** The value of a header for the called side; null if it is not to be written. */
  public static String value(String header, Span span) {
    switch (header) {
      case TRACEPARENT:
        return Trace.traceparent(span);
      case BAGGAGE:
        return span.baggage;
      case COMPACT:
        return Compact.write(span);
      case B3:
        return trace(span) + "-" + W3c.hex(span.id) + (span.sampled ? "-1" : "-0");
      case B3_TRACE:
        return trace(span);
      case B3_SPAN:
        return W3c.hex(span.id);
      case B3_SAMPLED:
        return span.sampled ? "1" : "0";
      default:
        return null;
    }
  }

  private static String trace(Span span) {
    // Callers with ids of 64 bits get theirs back.
    return span.traceHigh == 0 ? W3c.hex(span.traceLow) : W3c.hex(span.traceHigh) + W3c.hex(span.traceLow);
  }

  /** Takes a header of the caller. The first header that names a parent counts. */
  public static void read(String header, Span span, String value) {
    if (span == null || value == null) {
      return;
    }
    switch (header) {
      case BAGGAGE:
        span.baggage = bounded(value);
        return;
      case COMPACT:
        if (span.parent == 0) {
          Compact.read(value, span);
        }
        return;
      case B3:
        if (span.parent == 0) {
          readB3(value, span);
        }
        return;
      case B3_SPAN:
        if (span.parent == 0) {
          span.b3Parent = id(value, 0, value.length());
        }
        return;
      case B3_TRACE:
        if (span.parent == 0 && span.b3Parent != 0 && readTrace(value, 0, value.length(), span)) {
          span.parent = span.b3Parent;
          return;
        }
        span.b3Parent = 0;
        return;
      case B3_SAMPLED:
        if (span.b3Parent != 0) {
          span.sampled = !value.equals("0") && !value.equalsIgnoreCase("false");
        }
        return;
      case B3_FLAGS:
        if (span.b3Parent != 0 && value.equals("1")) {
          span.sampled = true;
        }
        return;
      default:
    }
  }

  /** {@code TRACE-SPAN}, {@code TRACE-SPAN-SAMPLED}, and with another id behind that. */
  private static void readB3(String text, Span span) {
    int trace = text.indexOf('-');
    if (trace < 0) {
      return;
    }
    int id = text.indexOf('-', trace + 1);
    int end = id < 0 ? text.length() : id;
    long parent = id(text, trace + 1, end);
    if (parent == 0 || !readTrace(text, 0, trace, span)) {
      return;
    }
    span.parent = parent;
    span.sampled = id < 0 || id + 1 >= text.length() || text.charAt(id + 1) != '0';
  }

  private static boolean readTrace(String text, int from, int to, Span span) {
    int length = to - from;
    long high = length == 32 ? hex(text, from, from + 16) : 0;
    long low = length == 32 || length == 16 ? hex(text, to - 16, to) : 0;
    if (length == 32 && !areDigits(text, from, to) || length == 16 && !areDigits(text, from, to)
        || (high | low) == 0) {
      return false;
    }
    span.traceHigh = high;
    span.traceLow = low;
    return true;
  }

  /** 0 if it is no id. */
  private static long id(String text, int from, int to) {
    return to - from == 16 && areDigits(text, from, to) ? hex(text, from, to) : 0;
  }

  private static boolean areDigits(String text, int from, int to) {
    for (int at = from; at < to; at++) {
      if (Character.digit(text.charAt(at), 16) < 0 || text.charAt(at) > 'f') {
        return false;
      }
    }
    return true;
  }

  private static long hex(String text, int from, int to) {
    long value = 0;
    for (int at = from; at < to; at++) {
      value = value << 4 | Character.digit(text.charAt(at), 16);
    }
    return value;
  }

  /** As many whole members as may be passed on; null if there are none, or it may be an attack. */
  static String bounded(String value) {
    int members = 0;
    int whole = 0;
    int length = value.length();
    for (int at = 0; at <= length; at++) {
      char character = at < length ? value.charAt(at) : ',';
      if (character == ',') {
        if (at > MOST_BAGGAGE_CHARACTERS || ++members > MOST_BAGGAGE_MEMBERS) {
          Log.say("baggage of more than 64 members or 8192 characters is cut");
          break;
        }
        whole = at;
      } else if (character < ' ' || character > '~') {
        return null;
      }
    }
    return whole == 0 ? null : whole == length ? value : value.substring(0, whole);
  }
}
