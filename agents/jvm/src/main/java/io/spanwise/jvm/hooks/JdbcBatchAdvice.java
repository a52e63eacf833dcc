package io.spanwise.jvm.hooks;

import io.spanwise.boot.Jdbc;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;

/** A batch is executed. */
public final class JdbcBatchAdvice {
  private JdbcBatchAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(@Advice.This Object statement) {
    return Jdbc.begin(statement, null);
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter Span span, @Advice.Thrown Throwable thrown) {
    Trace.end(span, thrown);
  }
}
