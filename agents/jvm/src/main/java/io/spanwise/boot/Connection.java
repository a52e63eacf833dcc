package io.spanwise.boot;

import java.util.ArrayDeque;

/**
 * The requests of one connection of Netty, in their order. Only the connection's event loop changes
 * them. Whoever works for the connection works on behalf of its last request.
 */
public final class Connection {
  private static final Attached<Connection> ALL = new Attached<>();
  /** In the place of a request that is not recorded. */
  private static final Span NONE = new Span();

  private final ArrayDeque<Span> open = new ArrayDeque<>(4);
  /** What the connection's work belongs to; null if it belongs to nothing. */
  private volatile Context context;
  private Context bound;
  private boolean isBound;
  /** Within a response such as 100, which another one follows. */
  private boolean isInterim;

  private Connection() {}

  public static Connection of(Object channel) {
    Connection known = ALL.get(channel);
    if (known == null) {
      known = new Connection();
      ALL.set(channel, known);
    }
    return known;
  }

  /** Null if nothing is known. */
  public static Connection known(Object channel) {
    return ALL.get(channel);
  }

  static void clear() {
    ALL.clear();
  }

  /** On behalf of the connection's request from now on. Returns what {@link Work#leave} wants. */
  public static int enter(Object channel) {
    Connection known = ALL.get(channel);
    Context context = known == null ? null : known.context;
    return context == null ? Work.NONE : Work.enter(context);
  }

  /** What the connection's work belongs to; null if nothing. */
  public static Context context(Object channel) {
    Connection known = ALL.get(channel);
    return known == null ? null : known.context;
  }

  /** A server has received a request. Null if it is not recorded. */
  public Span receives(String method, String target, String traceparent) {
    Span span = Hooks.httpServer
        ? Trace.detach(Trace.receive(Span.HTTP_SERVER, method, path(target), traceparent)) : null;
    open.add(span == null ? NONE : span);
    return span;
  }

  /** After the headers of the request were read. */
  public void received(Span span) {
    context = span == null ? null : new Context(span);
  }

  /** The next request of this client belongs to this, or to nothing. */
  public void bind(Context parent) {
    bound = parent;
    isBound = true;
  }

  /** A client sends a request. Null if it is not recorded. */
  public Span sends(String method, String target, String host) {
    int before = isBound ? Trace.enter(bound) : -1;
    isBound = false;
    bound = null;
    context = Trace.capture();
    Span span = Hooks.httpClient && !method.equals("CONNECT")
        ? Trace.detach(Trace.send(Span.HTTP_CLIENT, method, path(target), host)) : null;
    Trace.restore(before);
    open.add(span == null ? NONE : span);
    return span;
  }

  /** The head of a response. */
  public void responds(int status) {
    isInterim = status >= 100 && status < 200 && status != 101;
    Span span = open.peek();
    if (!isInterim && span != null && span != NONE) {
      span.status = status;
    }
  }

  /** The end of a response. */
  public void responseEnds(boolean isServer) {
    if (isInterim) {
      isInterim = false;
      return;
    }
    Span span = open.poll();
    if (span != null && span != NONE) {
      Trace.end(span, span.status, null);
    }
    // A client's program goes on with what it does.
    if (isServer && open.isEmpty()) {
      context = null;
    }
  }

  /** Nothing comes any more. */
  public void closes() {
    for (Span span = open.poll(); span != null; span = open.poll()) {
      if (span != NONE) {
        span.failed = true;
        span.error = "connection closed";
        Trace.end(span, span.status, null);
      }
    }
  }

  private static String path(String target) {
    int query = target == null ? -1 : target.indexOf('?');
    String path = query < 0 ? target : target.substring(0, query);
    int scheme = path == null || path.startsWith("/") ? -1 : path.indexOf("://");
    int slash = scheme < 0 ? -1 : path.indexOf('/', scheme + 3);
    return scheme < 0 ? path : slash < 0 ? "/" : path.substring(slash);
  }
}
