package io.spanwise.boot;

/**
 * The header between agents that are all ours: {@code 1SSSSSSSSSSSLLLLLLLLLLL}, less than half of a
 * {@code traceparent}. The first digit says whether the trace is sampled. The span's id follows, then
 * the low half of the trace's, both in 11 digits of base64url. The high half is only there if it is not
 * what {@link #high} makes of the low one.
 */
final class Compact {
  private static final String DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  private static final byte[] VALUES = new byte[128];
  private static final int ID = 11;
  private static final int SHORT = 1 + 2 * ID;
  private static final int LONG = SHORT + ID;

  static {
    java.util.Arrays.fill(VALUES, (byte) -1);
    for (int digit = 0; digit < 64; digit++) {
      VALUES[DIGITS.charAt(digit)] = (byte) digit;
    }
  }

  private Compact() {}

  /** The high half of a trace that begins in an agent that writes this header. */
  static long high(long low) {
    long high = low * 0x9e3779b97f4a7c15L;
    high ^= high >>> 32;
    return high == 0 ? 1 : high;
  }

  static String write(Span span) {
    boolean isShort = span.traceHigh == high(span.traceLow);
    char[] text = new char[isShort ? SHORT : LONG];
    text[0] = span.sampled ? '1' : '0';
    put(text, 1, span.id);
    put(text, 1 + ID, span.traceLow);
    if (!isShort) {
      put(text, SHORT, span.traceHigh);
    }
    return new String(text);
  }

  private static void put(char[] text, int at, long id) {
    for (int index = ID - 1; index >= 0; index--) {
      text[at + index] = DIGITS.charAt((int) id & 63);
      id >>>= 6;
    }
  }

  /** Sets the trace and the parent of a span. False if the header is invalid. */
  static boolean read(String text, Span span) {
    int length = text.length();
    if (length != SHORT && length != LONG || text.charAt(0) != '0' && text.charAt(0) != '1') {
      return false;
    }
    for (int at = 1; at < length; at++) {
      char character = text.charAt(at);
      int value = character < 128 ? VALUES[character] : -1;
      // 11 digits are 66 bits, and an id has 64.
      if (value < 0 || value > 15 && (at - 1) % ID == 0) {
        return false;
      }
    }
    long parent = id(text, 1);
    long low = id(text, 1 + ID);
    long high = length == LONG ? id(text, SHORT) : high(low);
    if (parent == 0 || (low | high) == 0) {
      return false;
    }
    span.traceHigh = high;
    span.traceLow = low;
    span.parent = parent;
    span.sampled = text.charAt(0) == '1';
    return true;
  }

  private static long id(String text, int at) {
    long value = 0;
    for (int index = at; index < at + ID; index++) {
      value = value << 6 | VALUES[text.charAt(index)];
    }
    return value;
  }
}
