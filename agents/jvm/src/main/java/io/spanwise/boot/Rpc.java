package io.spanwise.boot;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.function.BiConsumer;

/** Remote calls that end later, by the object that stands for each: calls and streams of gRPC. */
public final class Rpc implements BiConsumer<Object, Throwable> {
  private static final Attached<Rpc> CALLS = new Attached<>();

  private final Span span;
  /** What the callbacks of the call work for. */
  private final Context context;
  private boolean isOver;

  private Rpc(Span span, Context context) {
    this.span = span;
    this.context = context;
  }

  static void clear() {
    CALLS.clear();
  }

  /** A call begins; its callbacks work for whoever calls. Returns the span that nobody has. */
  public static Span calls(Object call, String system, String method) {
    if (!Hooks.rpc) {
      return null;
    }
    Context caller = Trace.capture();
    Span span = Trace.detach(Trace.send(Span.RPC_CLIENT, system, method, null));
    if (span != null) {
      CALLS.set(call, new Rpc(span, caller));
    }
    return span;
  }

  /** A call is received. Returns the span that nobody has. */
  public static Span receives(String system, String method, String traceparent) {
    return Hooks.rpc ? Trace.detach(Trace.receive(Span.RPC_SERVER, system, method, traceparent)) : null;
  }

  /** The caller's headers were read; callbacks work for the call. */
  public static int received(Object stream, Span span) {
    Rpc call = new Rpc(span, new Context(span));
    CALLS.set(stream, call);
    return Work.enter(call.context);
  }

  /** A callback of this call begins. */
  public static int enter(Object call) {
    Rpc known = CALLS.get(call);
    return known == null ? Work.NONE : Work.enter(known.context);
  }

  /** The call has ended. Only the first end counts. */
  public static void ends(Object call, int status, Throwable cause, SocketAddress peer) {
    Rpc known = CALLS.get(call);
    if (known != null) {
      if (peer instanceof InetSocketAddress) {
        InetSocketAddress address = (InetSocketAddress) peer;
        known.span.peer = address.getHostString() + ":" + address.getPort();
      }
      known.end(status, status == 0 ? null : cause);
    }
  }

  /** No callback of the call follows. */
  public static void forget(Object call) {
    if (CALLS.get(call) != null) {
      CALLS.set(call, null);
    }
  }

  private synchronized void end(int status, Throwable thrown) {
    if (!isOver) {
      isOver = true;
      Trace.end(span, status, thrown);
    }
  }

  /** Ends a span with a result that has an exception, or not. */
  @SuppressWarnings("unchecked") // It takes any object.
  public static <T> BiConsumer<T, Throwable> whenComplete(Span span) {
    return (BiConsumer<T, Throwable>) new Rpc(span, null);
  }

  @Override
  public void accept(Object result, Throwable thrown) {
    Object failure = thrown != null ? thrown : Listener.call(result, "getException");
    end(0, failure instanceof Throwable ? (Throwable) failure : null);
  }
}
