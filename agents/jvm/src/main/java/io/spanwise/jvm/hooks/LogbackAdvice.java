package io.spanwise.jvm.hooks;

import io.spanwise.boot.Logs;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import org.slf4j.MDC;

/** A line goes to Logback's appenders. The ids are in the MDC only meanwhile. */
public final class LogbackAdvice {
  private LogbackAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static boolean enter() {
    String trace = Logs.traceId();
    if (trace == null || MDC.get(Logs.TRACE_ID) != null) {
      return false;
    }
    MDC.put(Logs.TRACE_ID, trace);
    MDC.put(Logs.SPAN_ID, Trace.spanId());
    return true;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter boolean put) {
    if (put) {
      MDC.remove(Logs.TRACE_ID);
      MDC.remove(Logs.SPAN_ID);
    }
  }
}
