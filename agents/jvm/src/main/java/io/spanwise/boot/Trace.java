package io.spanwise.boot;

/**
 * The primitives that woven code calls: a request is received and answered, a call is sent and
 * answered. None of them throws.
 */
public final class Trace {
  /** Successes are kept 1 in this number; 1 keeps all. Changed while the program runs. */
  static volatile int oneIn = 1;
  /** Spans are recorded. */
  static volatile boolean on;
  /** Counts the starts of the agent. Written before {@link #on}. */
  static int generation;

  private Trace() {}

  /**
   * Server receive. Null if the same request is traced already, further out.
   *
   * @param traceparent the caller's header, or null
   */
  public static Span receive(int component, String name, String target, String traceparent) {
    if (!on) {
      return null;
    }
    Lane lane = Lane.mine();
    if (lane.isWithin(component)) {
      return null;
    }
    Span span = lane.push(component);
    if (span == null) {
      return null;
    }
    if (traceparent == null || !Propagation.w3c || !W3c.read(traceparent, span)) {
      span.traceLow = lane.nextId();
      span.traceHigh = Propagation.high(lane, span.traceLow);
      span.parent = 0;
      span.sampled = true;
    }
    return begin(lane, span, name, target, null);
  }

  /** Client send. Null if a call of the same kind is open: libraries call one another. */
  public static Span send(int component, String name, String target, String peer) {
    if (!on) {
      return null;
    }
    Lane lane = Lane.mine();
    Span outer = lane.top();
    if (outer != null && outer.component == component) {
      return null;
    }
    Span span = lane.push(component);
    if (span == null) {
      return null;
    }
    if (outer != null && outer.id != 0) {
      span.traceHigh = outer.traceHigh;
      span.traceLow = outer.traceLow;
      span.parent = outer.id;
      span.sampled = outer.sampled;
      span.baggage = outer.baggage;
      span.server = outer.server;
    } else {
      span.traceLow = lane.nextId();
      span.traceHigh = Propagation.high(lane, span.traceLow);
      span.parent = 0;
      span.sampled = true;
    }
    return begin(lane, span, name, target, peer);
  }

  private static Span begin(Lane lane, Span span, String name, String target, String peer) {
    span.id = lane.nextId();
    span.name = name;
    span.target = target;
    span.peer = peer;
    span.startNano = System.nanoTime();
    lane.show();
    return span;
  }

  /** Takes a span from its thread. It is finished later, by any thread. */
  public static Span detach(Span span) {
    if (span == null) {
      return null;
    }
    Span copy = new Span();
    span.copyTo(copy);
    Lane.mine().pop(span);
    return copy;
  }

  /** Ends a span that failed only if something was thrown. */
  public static void end(Span span, Throwable thrown) {
    end(span, 0, thrown);
  }

  /**
   * Ends a span: server send or client receive.
   *
   * @param status the protocol's status; 0 if there is none
   */
  public static void end(Span span, int status, Throwable thrown) {
    if (span == null) {
      return;
    }
    Lane lane = Lane.mine();
    if (span.depth >= 0 && !lane.pop(span)) {
      return;
    }
    span.endNano = System.nanoTime();
    span.status = status;
    if (thrown != null) {
      span.failed = true;
      span.error = thrown.getClass().getName();
    } else if (isFailure(span.component, status)) {
      span.failed = true;
    }
    // Decided now, when it is known how the span ended.
    int oneIn = Trace.oneIn;
    if (span.component == Span.CONTEXT) {
      return;
    }
    if (span.failed) {
      lane.keep(span);
      if (oneIn > 1 || !span.sampled) {
        lane.keepOpen(span);
      }
    } else if (span.kept || span.sampled && isSampled(span.traceLow, oneIn)) {
      lane.keep(span);
    } else {
      lane.remember(span);
    }
  }

  /** All processes decide the same about a trace. */
  static boolean isSampled(long traceLow, int oneIn) {
    return oneIn <= 1 || Long.remainderUnsigned(traceLow >>> 8, oneIn) == 0;
  }

  private static boolean isFailure(int component, int status) {
    switch (component) {
      case Span.HTTP_SERVER:
        return status >= 500;
      case Span.HTTP_CLIENT:
        return status >= 400;
      case Span.RPC_CLIENT:
      case Span.RPC_SERVER:
        return status > 0;
      default:
        return false;
    }
  }

  /** The header for the called side. */
  public static String traceparent(Span span) {
    return W3c.write(span.traceHigh, span.traceLow, span.id, span.sampled);
  }

  /** The innermost span if it is a call over HTTP; else null. */
  public static Span clientSpan() {
    Span top = on ? Lane.mine().top() : null;
    return top == null || top.component != Span.HTTP_CLIENT ? null : top;
  }

  /** The route of the request that the current work belongs to. */
  public static void route(String route) {
    if (on && route != null) {
      Lane.mine().route(route);
    }
  }

  /** The route of a request, whatever the current work is. */
  public static void route(Context context, String route) {
    if (context != null && context.server != null && route != null) {
      context.server.route(route);
    }
  }

  /** The current context, to take to another thread; null if there is none. */
  public static Context capture() {
    if (!on) {
      return null;
    }
    Span top = Lane.mine().top();
    return top == null || top.id == 0 ? null : new Context(top);
  }

  /** Works on behalf of a context from now on, or of none. Returns what {@link #restore} wants. */
  public static int enter(Context context) {
    if (!on) {
      return -1;
    }
    Lane lane = Lane.mine();
    int before = lane.depth();
    lane.enter(context);
    return before;
  }

  /** Works on behalf of an open span that no thread has. */
  public static int enter(Span span) {
    return enter(span == null ? null : new Context(span));
  }

  public static void restore(int before) {
    if (before >= 0) {
      Lane.mine().cutTo(before);
    }
  }

  /** Works on behalf of a context, or of none, until {@link #endWork}. */
  public static void work(Context context) {
    if (on) {
      Lane.mine().enterWork(context);
    }
  }

  public static void endWork() {
    if (on) {
      Lane.mine().leaveWork();
    }
  }

  /** The trace id of the current work as text; null if there is none. */
  public static String traceId() {
    Span top = on ? Lane.mine().top() : null;
    return top == null || top.id == 0 ? null : W3c.hex(top.traceHigh) + W3c.hex(top.traceLow);
  }

  /** The id of the current span as text; null if there is none. */
  public static String spanId() {
    Span top = on ? Lane.mine().top() : null;
    return top == null || top.id == 0 ? null : W3c.hex(top.id);
  }
}
