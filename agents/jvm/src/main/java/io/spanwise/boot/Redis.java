package io.spanwise.boot;

import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.util.function.BiConsumer;

/** Commands of clients of Redis. Their keys and values are not read. */
public final class Redis {
  private static final int MOST_OPEN = 1024;
  private static final Attached<Jedis> CONNECTIONS = new Attached<>();
  /** Of Lettuce's channels. */
  private static final Attached<String> PEERS = new Attached<>();
  private static final Attached<String> NAMES = new Attached<>();
  private static final Getter RAW = new Getter("getRaw");
  private static final Getter ADDRESS = new Getter("remoteAddress");

  private Redis() {}

  private static String peer(SocketAddress address) {
    if (!(address instanceof InetSocketAddress)) {
      return "redis:";
    }
    InetSocketAddress known = (InetSocketAddress) address;
    String host = known.getHostString();
    return "redis://" + (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + known.getPort();
  }

  /** A command's name: {@code GET}, {@code JSON.GET}. */
  private static String name(Object command) {
    if (command instanceof Enum && command.getClass().getName().endsWith("Protocol$Command")) {
      return ((Enum<?>) command).name();
    }
    String known = NAMES.get(command);
    if (known == null) {
      Object raw = RAW.get(command);
      known = raw instanceof byte[]
          ? new String((byte[]) raw, java.nio.charset.StandardCharsets.UTF_8)
          : "REDIS";
      if (command != null) {
        NAMES.set(command, known);
      }
    }
    return known;
  }

  /** Jedis sends a command. */
  public static void sends(Object connection, Object command) {
    if (!Trace.on || !Hooks.cache) {
      return;
    }
    Jedis known = CONNECTIONS.get(connection);
    if (known == null) {
      known = new Jedis();
      CONNECTIONS.set(connection, known);
    }
    known.begin(name(command));
  }

  /** Jedis has sent a command, or failed to. */
  public static void sent(Object connection, Socket socket, Throwable thrown) {
    Jedis known = CONNECTIONS.get(connection);
    if (known != null) {
      known.sent(socket, thrown);
    }
  }

  /** Jedis has read an answer, or failed to. */
  public static void answered(Object connection, Throwable thrown) {
    Jedis known = CONNECTIONS.get(connection);
    if (known != null) {
      known.end(thrown);
    }
  }

  /** Commands of a connection of Jedis that are not answered. Answers come in their order. */
  private static final class Jedis {
    private Span[] open = {new Span()};
    private int first;
    private int count;
    private Socket socket;
    private String peer;

    private Span at(int place) {
      return open[(first + place) % open.length];
    }

    private synchronized void begin(String name) {
      if (count == open.length) {
        grow();
      }
      Span place = at(count++);
      place.id = 0;
      Span span = Trace.send(Span.CACHE, name, null, peer);
      if (span != null) {
        span.copyTo(place);
        place.failed = false;
        place.error = null;
        place.status = 0;
        Lane.mine().pop(span);
      }
    }

    private void grow() {
      if (count >= MOST_OPEN) {
        // Nobody reads the answers.
        first = (first + 1) % open.length;
        count--;
        return;
      }
      Span[] more = new Span[open.length * 2];
      for (int place = 0; place < more.length; place++) {
        more[place] = place < count ? at(place) : new Span();
      }
      open = more;
      first = 0;
    }

    private synchronized void sent(Socket now, Throwable thrown) {
      if (count == 0) {
        return;
      }
      if (now != null && now != socket) {
        socket = now;
        peer = peer(now.getRemoteSocketAddress());
      }
      Span last = at(count - 1);
      last.peer = peer == null ? "redis:" : peer;
      if (thrown != null) {
        count--;
        finish(last, thrown);
      }
    }

    private synchronized void end(Throwable thrown) {
      if (count > 0) {
        Span span = at(0);
        first = (first + 1) % open.length;
        count--;
        finish(span, thrown);
      }
    }

    private static void finish(Span span, Throwable thrown) {
      if (span.id != 0) {
        Trace.end(span, thrown);
      }
    }
  }

  /** Lettuce writes the command of the span that this thread has begun last. */
  public static void writes(Object channel) {
    if (!Trace.on || channel == null) {
      return;
    }
    Span top = Lane.mine().top();
    if (top != null && top.component == Span.CACHE && top.peer == null) {
      String known = PEERS.get(channel);
      if (known == null) {
        Object address = ADDRESS.get(channel);
        if (address == null) {
          // Not connected yet.
          return;
        }
        known = peer((SocketAddress) address);
        PEERS.set(channel, known);
      }
      top.peer = known;
    }
  }

  /** For the completion of a command of Lettuce: takes its span from this thread. */
  public static BiConsumer<Object, Throwable> completion(Span span) {
    if (span.peer == null) {
      span.peer = "redis:";
    }
    return new Completion(Trace.detach(span));
  }

  private static final class Completion implements BiConsumer<Object, Throwable> {
    private final Span span;
    private boolean isOver;

    private Completion(Span span) {
      this.span = span;
    }

    @Override
    public synchronized void accept(Object result, Throwable thrown) {
      if (!isOver) {
        isOver = true;
        Trace.end(span, thrown);
      }
    }
  }
}
