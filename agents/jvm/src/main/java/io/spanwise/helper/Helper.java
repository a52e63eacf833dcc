package io.spanwise.helper;

import java.lang.instrument.Instrumentation;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;

/** Begins, and says what is wrong. */
public final class Helper {
  private static final AtomicBoolean BEGUN = new AtomicBoolean();
  /** What was said already. */
  private static final Set<String> SAID = ConcurrentHashMap.newKeySet();
  private static final int MOST_SAID = 100;
  private static volatile Table table;

  private Helper() {}

  static Table table() {
    return table;
  }

  public static void start(Instrumentation instrumentation) throws Exception {
    if (!BEGUN.compareAndSet(false, true)) {
      return;
    }
    Rewriter.loadHelpers();
    table = Table.open();
    new Rewriter(instrumentation).begin();
  }

  /** Once for each kind of failure; the program goes on as if nothing were there. */
  static void failed(Throwable failure) {
    StackTraceElement[] trace = failure.getStackTrace();
    say(failure + (trace.length > 0 ? " at " + trace[0] : ""));
  }

  static void say(String what) {
    try {
      if (SAID.size() < MOST_SAID && SAID.add(what)) {
        System.err.println("spanwise: helper: " + what);
      }
    } catch (Throwable nothing) {
      // Not even that can be said.
    }
  }
}
