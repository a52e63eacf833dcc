package io.spanwise.boot;

/** The header {@code traceparent} (W3C Trace Context, "traceparent Header"). */
final class W3c {
  private static final char[] DIGITS = "0123456789abcdef".toCharArray();
  private static final int LENGTH = 55;

  private W3c() {}

  static String write(long high, long low, long span, boolean sampled) {
    char[] text = new char[LENGTH];
    text[0] = '0';
    text[1] = '0';
    text[2] = '-';
    put(text, 3, high);
    put(text, 19, low);
    text[35] = '-';
    put(text, 36, span);
    text[52] = '-';
    text[53] = '0';
    text[54] = sampled ? '1' : '0';
    return new String(text);
  }

  static String hex(long id) {
    char[] text = new char[16];
    put(text, 0, id);
    return new String(text);
  }

  private static void put(char[] text, int at, long id) {
    for (int index = 15; index >= 0; index--) {
      text[at + index] = DIGITS[(int) id & 15];
      id >>>= 4;
    }
  }

  /** Sets the trace and the parent of a span. False if the header is invalid. */
  static boolean read(String text, Span span) {
    int length = text.length();
    if (length < LENGTH
        || text.charAt(2) != '-'
        || text.charAt(35) != '-'
        || text.charAt(52) != '-') {
      return false;
    }
    int version = number(text, 0, 2);
    int flags = number(text, 53, 2);
    // A later version may be longer, after a hyphen.
    if (version < 0 || version == 255 || flags < 0
        || (version == 0 ? length != LENGTH : length > LENGTH && text.charAt(LENGTH) != '-')) {
      return false;
    }
    for (int at = 3; at < 52; at++) {
      if (at != 35 && digit(text.charAt(at)) < 0) {
        return false;
      }
    }
    long high = id(text, 3);
    long low = id(text, 19);
    long parent = id(text, 36);
    if ((high | low) == 0 || parent == 0) {
      return false;
    }
    span.traceHigh = high;
    span.traceLow = low;
    span.parent = parent;
    span.sampled = (flags & 1) != 0;
    return true;
  }

  private static int number(String text, int at, int digits) {
    int value = 0;
    for (int index = at; index < at + digits; index++) {
      int digit = digit(text.charAt(index));
      if (digit < 0) {
        return -1;
      }
      value = value << 4 | digit;
    }
    return value;
  }

  private static long id(String text, int at) {
    long value = 0;
    for (int index = at; index < at + 16; index++) {
      value = value << 4 | digit(text.charAt(index));
    }
    return value;
  }

  /** Only lower case is allowed. */
  private static int digit(char character) {
    if (character >= '0' && character <= '9') {
      return character - '0';
    }
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
  }
}
