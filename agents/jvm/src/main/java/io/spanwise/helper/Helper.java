package io.spanwise.helper;

import io.spanwise.boot.Shown;
import java.lang.instrument.Instrumentation;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;

/** Starts the helper and reports problems. */
public final class Helper {
  private static final AtomicBoolean BEGUN = new AtomicBoolean();
  /** Messages that were already printed. */
  private static final Set<String> SAID = ConcurrentHashMap.newKeySet();
  private static final int MOST_SAID = 100;
  private static volatile Table table;
  private static Rewriter rewriter;

  private Helper() {}

  static Table table() {
    return table;
  }

  public static void start(Instrumentation instrumentation) throws Exception {
    if (!BEGUN.compareAndSet(false, true)) {
      return;
    }
    Rewriter.loadHelpers();
    if (table == null) {
      table = Table.open();
    }
    Shown.in(() -> ThreadState.mine().shown());
    rewriter = new Rewriter(instrumentation);
    rewriter.begin();
  }

  /**
   * Gives classes their own code back. The table stays: work that was handed over before still has
   * its places in it.
   */
  public static void stop() throws Exception {
    if (BEGUN.compareAndSet(true, false)) {
      rewriter.end();
      rewriter = null;
    }
  }

  /** Reports each kind of failure once. The program continues as if the helper were not there. */
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
      // Even the message cannot be printed.
    }
  }
}
