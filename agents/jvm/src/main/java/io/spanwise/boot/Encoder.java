package io.spanwise.boot;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** Writes batches (docs/jvm-format.md): each name and trace once, the rest as small numbers. */
final class Encoder {
  static final int MOST_SPANS = 4096;
  /** A text that is longer is cut. */
  private static final int MOST_CHARACTERS = 4096;
  private static final int MOST_STATEMENTS = 2048;

  private static final int FAILED = 1;
  private static final int PARENT_ID = 2;
  private static final int PARENT_BEFORE = 4;
  private static final int STATUS = 8;
  private static final int CLIENT_PORT = 16;

  private final Bytes spans = new Bytes(64 * 1024);
  private final Bytes texts = new Bytes(16 * 1024);
  private final Bytes traces = new Bytes(16 * 1024);
  private final HashMap<String, Integer> textNumbers = new HashMap<>();
  private final Numbers traceNumbers = new Numbers();
  private final Numbers spanNumbers = new Numbers();
  /** Statements without their literals. */
  private final Map<String, String> statements = new LinkedHashMap<String, String>(64, 0.75f, true) {
    private static final long serialVersionUID = 1;

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
      return size() > MOST_STATEMENTS;
    }
  };
  private int textCount;
  private int traceCount;
  private int count;
  private long previousNano;

  /** Starts a batch; times are told from this moment of the monotonic clock. */
  void begin(long nano) {
    spans.length = 0;
    texts.length = 0;
    traces.length = 0;
    textNumbers.clear();
    traceNumbers.clear();
    spanNumbers.clear();
    textCount = 0;
    traceCount = 0;
    count = 0;
    previousNano = nano;
  }

  int count() {
    return count;
  }

  boolean isFull() {
    return count >= MOST_SPANS || spans.length + texts.length > 512 * 1024;
  }

  void add(Span span) {
    int parentBefore = span.parent == 0 ? -1 : spanNumbers.get(span.parent);
    int flags = (span.failed ? FAILED : 0)
        | (span.status == 0 ? 0 : STATUS)
        | (span.clientPort == 0 ? 0 : CLIENT_PORT)
        | (span.parent == 0 ? 0 : parentBefore >= 0 ? PARENT_BEFORE : PARENT_ID);
    spans.put(span.component);
    spans.put(flags);
    boolean isQuery = span.component == Span.DATABASE;
    spans.number(text(span.name));
    spans.number(text(isQuery ? statement(span.target) : span.target));
    spans.number(text(span.peer));
    if (span.failed) {
      spans.number(text(span.error));
    }
    if (span.status != 0) {
      spans.number(span.status);
    }
    if (span.clientPort != 0) {
      spans.number(span.clientPort);
    }
    spans.number(trace(span));
    spans.fixed(span.id);
    if (parentBefore >= 0) {
      spans.number(count - parentBefore);
    } else if (span.parent != 0) {
      spans.fixed(span.parent);
    }
    long delta = span.startNano - previousNano;
    spans.number(delta << 1 ^ delta >> 63);
    spans.number(Math.max(0, span.endNano - span.startNano));
    previousNano = span.startNano;
    spanNumbers.put(span.id, count);
    count++;
  }

  private int trace(Span span) {
    int known = traceNumbers.get(span.traceLow);
    if (known >= 0 && traces.fixedAt(known * 16) == span.traceHigh) {
      return known;
    }
    traces.fixed(span.traceHigh);
    traces.fixed(span.traceLow);
    traceNumbers.put(span.traceLow, traceCount);
    return traceCount++;
  }

  private String statement(String sql) {
    if (sql == null) {
      return null;
    }
    String known = statements.get(sql);
    if (known == null) {
      known = Sql.withoutLiterals(sql);
      statements.put(sql, known);
    }
    return known;
  }

  /** 0 for no text. */
  private int text(String text) {
    if (text == null) {
      return 0;
    }
    Integer known = textNumbers.get(text);
    if (known != null) {
      return known;
    }
    textNumbers.put(text, ++textCount);
    texts.text(text.length() > MOST_CHARACTERS ? text.substring(0, MOST_CHARACTERS) : text);
    return textCount;
  }

  /** The batch's bytes. */
  byte[] finish(long wallNano, String[] resource, long droppedFull, long droppedDeep) {
    Bytes all = new Bytes(spans.length + texts.length + traces.length + 1024);
    all.put('S');
    all.put('W');
    all.put('J');
    all.put(1);
    all.number(wallNano);
    all.number(droppedFull);
    all.number(droppedDeep);
    all.number(resource.length / 2);
    for (String each : resource) {
      all.text(each);
    }
    all.number(textCount);
    all.append(texts);
    all.number(traceCount);
    all.append(traces);
    all.number(count);
    all.append(spans);
    return all.toArray();
  }

  /** Bytes that grow. */
  private static final class Bytes {
    private byte[] bytes;
    private int length;

    private Bytes(int capacity) {
      bytes = new byte[capacity];
    }

    private void room(int more) {
      if (length + more > bytes.length) {
        bytes = java.util.Arrays.copyOf(bytes, Math.max(bytes.length * 2, length + more));
      }
    }

    private void put(int value) {
      room(1);
      bytes[length++] = (byte) value;
    }

    /** An unsigned number in groups of 7 bits, lowest first. */
    private void number(long value) {
      room(10);
      while ((value & ~127L) != 0) {
        bytes[length++] = (byte) (value | 128);
        value >>>= 7;
      }
      bytes[length++] = (byte) value;
    }

    private void fixed(long value) {
      room(8);
      for (int shift = 56; shift >= 0; shift -= 8) {
        bytes[length++] = (byte) (value >>> shift);
      }
    }

    private long fixedAt(int at) {
      long value = 0;
      for (int index = at; index < at + 8; index++) {
        value = value << 8 | bytes[index] & 255;
      }
      return value;
    }

    private void text(String text) {
      byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
      number(encoded.length);
      room(encoded.length);
      System.arraycopy(encoded, 0, bytes, length, encoded.length);
      length += encoded.length;
    }

    private void append(Bytes other) {
      room(other.length);
      System.arraycopy(other.bytes, 0, bytes, length, other.length);
      length += other.length;
    }

    private byte[] toArray() {
      return java.util.Arrays.copyOf(bytes, length);
    }
  }

  /** From ids to places, without objects. Holds one batch. */
  private static final class Numbers {
    private static final int SIZE = MOST_SPANS * 4;
    private final long[] keys = new long[SIZE];
    private final int[] values = new int[SIZE];

    private static int place(long key) {
      return (int) (key * 0x9e3779b97f4a7c15L >>> 40) & SIZE - 1;
    }

    private int get(long key) {
      for (int at = place(key); keys[at] != 0; at = at + 1 & SIZE - 1) {
        if (keys[at] == key) {
          return values[at];
        }
      }
      return -1;
    }

    private void put(long key, int value) {
      if (key == 0) {
        return;
      }
      int at = place(key);
      while (keys[at] != 0 && keys[at] != key) {
        at = at + 1 & SIZE - 1;
      }
      keys[at] = key;
      values[at] = value;
    }

    private void clear() {
      java.util.Arrays.fill(keys, 0);
    }
  }
}
