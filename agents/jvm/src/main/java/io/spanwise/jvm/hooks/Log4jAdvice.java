package io.spanwise.jvm.hooks;

import io.spanwise.boot.Logs;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import org.apache.logging.log4j.ThreadContext;

/** Log4j 2 makes a line. The ids are in the thread context only meanwhile. */
public final class Log4jAdvice {
  private Log4jAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static boolean enter() {
    String trace = Logs.traceId();
    if (trace == null || ThreadContext.containsKey(Logs.TRACE_ID)) {
      return false;
    }
    ThreadContext.put(Logs.TRACE_ID, trace);
    ThreadContext.put(Logs.SPAN_ID, Trace.spanId());
    return true;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter boolean put) {
    if (put) {
      ThreadContext.remove(Logs.TRACE_ID);
      ThreadContext.remove(Logs.SPAN_ID);
    }
  }
}
