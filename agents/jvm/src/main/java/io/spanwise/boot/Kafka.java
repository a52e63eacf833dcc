package io.spanwise.boot;

import java.nio.charset.StandardCharsets;
import java.util.AbstractList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** What is known of Kafka's clients, and the records that a consumer goes through. */
public final class Kafka {
  /** Of producers and consumers: where their brokers are. */
  private static final Attached<String> PEERS = new Attached<>();
  /** Of records: the peer of the consumer that has polled them. */
  private static final Attached<String> POLLED = new Attached<>();
  /** The record that this thread works on, for programs that leave a loop before its end. */
  private static final ThreadLocal<Records<?>> CURRENT = new ThreadLocal<>();

  private static final Getter TOPIC = new Getter("topic");
  private static final Getter PARTITION = new Getter("partition");
  private static final Getter OFFSET = new Getter("offset");
  private static final Getter KEY = new Getter("key");
  private static final Getter HEADERS = new Getter("headers");
  private static final Getter HEADER_KEY = new Getter("key");
  private static final Getter HEADER_VALUE = new Getter("value");

  private Kafka() {}

  /** A client was made with these settings. */
  public static void made(Object client, Object settings) {
    if (settings instanceof Map) {
      Object servers = ((Map<?, ?>) settings).get("bootstrap.servers");
      Object group = ((Map<?, ?>) settings).get("group.id");
      if (servers instanceof List && !((List<?>) servers).isEmpty()) {
        servers = ((List<?>) servers).get(0);
      }
      String first = servers instanceof String ? ((String) servers).split(",", 2)[0].trim() : "";
      String peer = first.isEmpty() ? "kafka:" : "kafka://" + first;
      PEERS.set(client, group instanceof String ? peer + "?group=" + group : peer);
    }
  }

  public static String peer(Object client) {
    String known = PEERS.get(client);
    return known == null ? "kafka:" : known;
  }

  /** A consumer asks for more. What this thread worked on is over. */
  public static void polls() {
    Records<?> current = CURRENT.get();
    if (current != null) {
      current.end();
    }
  }

  public static void polled(Object consumer, Object records) {
    if (Trace.on && Hooks.messaging) {
      POLLED.set(records, peer(consumer));
    }
  }

  private static String polledFrom(Object records) {
    String known = POLLED.get(records);
    return known == null ? "kafka:" : known;
  }

  private static boolean isOff() {
    return !Trace.on || !Hooks.messaging;
  }

  public static <T> Iterator<T> iterator(Object records, Iterator<T> all) {
    return isOff() || all == null ? all : new Records<>(all, polledFrom(records));
  }

  public static <T> Iterable<T> iterable(Object records, Iterable<T> all) {
    return isOff() || all == null ? all : () -> iterator(records, all.iterator());
  }

  public static <T> List<T> list(Object records, List<T> all) {
    if (isOff() || all == null || all.isEmpty()) {
      return all;
    }
    return new AbstractList<T>() {
      @Override
      public T get(int index) {
        return all.get(index);
      }

      @Override
      public int size() {
        return all.size();
      }

      @Override
      public Iterator<T> iterator() {
        return Kafka.iterator(records, all.iterator());
      }
    };
  }

  /** Adds what a record or its acknowledgement says of its place. */
  static String withPlace(String peer, Object of) {
    Object partition = PARTITION.get(of);
    Object offset = OFFSET.get(of);
    if (peer == null || !(partition instanceof Integer)) {
      return peer;
    }
    StringBuilder text = query(peer);
    text.append("partition=").append(partition);
    if (offset instanceof Long && (Long) offset >= 0) {
      text.append("&offset=").append(offset);
    }
    return text.toString();
  }

  private static StringBuilder query(String peer) {
    return new StringBuilder(96).append(peer).append(peer.indexOf('?') < 0 ? '?' : '&');
  }

  /** Adds a key that may be shown. It is the last part, because it may have any character. */
  public static String withKey(String peer, Object key) {
    if (peer == null || key == null) {
      return peer;
    }
    StringBuilder text = query(peer);
    int before = text.length();
    Messages.key(text, key);
    return text.length() == before ? peer : text.toString();
  }

  /** Those headers of a record that tell of its producer; the last one of a name counts. */
  private static Map<String, String> headers(Object record) {
    Object headers = HEADERS.get(record);
    Map<String, String> found = null;
    if (headers instanceof Iterable) {
      for (Object header : (Iterable<?>) headers) {
        Object name = HEADER_KEY.get(header);
        if (name instanceof String && Propagation.isRead((String) name)) {
          Object value = HEADER_VALUE.get(header);
          if (value instanceof byte[]) {
            found = found == null ? new HashMap<>(4) : found;
            found.put((String) name, new String((byte[]) value, StandardCharsets.ISO_8859_1));
          }
        }
      }
    }
    return found;
  }

  /** Each record is worked on from when it is taken until the next one is asked for. */
  private static final class Records<T> implements Iterator<T> {
    private final Iterator<T> all;
    private final String peer;
    private Span span;
    /** Spans of a thread are used again, so this says whether it is still the record's. */
    private long id;

    private Records(Iterator<T> all, String peer) {
      this.all = all;
      this.peer = peer;
    }

    private void end() {
      Span open = span;
      span = null;
      if (open != null && open.id == id) {
        Trace.end(open, null);
      }
      CURRENT.remove();
    }

    @Override
    public boolean hasNext() {
      if (span != null) {
        end();
      }
      return all.hasNext();
    }

    @Override
    public T next() {
      if (span != null) {
        end();
      }
      T record = all.next();
      try {
        begin(record);
      } catch (Throwable failure) {
        Log.failed(failure);
      }
      return record;
    }

    private void begin(Object record) {
      Object topic = TOPIC.get(record);
      if (!(topic instanceof String)) {
        return;
      }
      String place = withKey(withPlace(peer, record), KEY.get(record));
      span = Messages.process("process", (String) topic, place, headers(record));
      if (span != null) {
        id = span.id;
        CURRENT.set(this);
      }
    }

    @Override
    public void remove() {
      all.remove();
    }
  }
}
