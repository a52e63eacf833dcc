package io.spanwise.boot;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Messages of the agent, each once, on standard error. */
public final class Log {
  private static final Set<String> SAID = ConcurrentHashMap.newKeySet();
  private static final int MOST_SAID = 100;

  private Log() {}

  /** A hook has failed. The program continues as if it were not there. */
  public static void failed(Throwable failure) {
    StackTraceElement[] trace = failure.getStackTrace();
    say("a hook failed: " + failure + (trace.length > 0 ? " at " + trace[0] : ""));
  }

  public static void say(String what) {
    try {
      if (SAID.size() < MOST_SAID && SAID.add(what)) {
        System.err.println("spanwise: agent: " + what);
      }
    } catch (Throwable nothing) {
      // Even the message cannot be printed.
    }
  }
}
