package io.spanwise.boot;

/** Requests of a client that wait for a connection, by their objects. */
public final class Requests {
  private static final Attached<Context> MADE = new Attached<>();

  private Requests() {}

  static void clear() {
    MADE.clear();
  }

  /** A request is made in the course of the current work. */
  public static void made(Object request) {
    Context context = Trace.capture();
    if (context != null) {
      MADE.set(request, context);
    }
  }

  /** It has got a connection, on a thread that may have worked for others. */
  public static void sentBy(Object request, Object channel) {
    if (Trace.on) {
      Connection.of(channel).bind(MADE.get(request));
    }
  }
}
