package io.spanwise.boot;

/** Ids of the current span in lines of logs. */
public final class Logs {
  public static final String TRACE_ID = "trace_id";
  public static final String SPAN_ID = "span_id";
  /** Whether lines of java.util.logging say them. They have no other place than the text. */
  private static final boolean JUL = "on".equals(Settings.get("jul", "off"));

  private Logs() {}

  /** The trace's id; null if lines are left as they are. */
  public static String traceId() {
    return Hooks.logs ? Trace.traceId() : null;
  }

  /** The text of a line of java.util.logging. */
  public static String line(String text) {
    String trace = JUL && text != null ? traceId() : null;
    return trace == null ? text : text + " trace_id=" + trace + " span_id=" + Trace.spanId();
  }
}
