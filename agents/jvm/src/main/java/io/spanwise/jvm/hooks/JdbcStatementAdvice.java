package io.spanwise.jvm.hooks;

import io.spanwise.boot.Jdbc;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;

/** A statement is executed. */
public final class JdbcStatementAdvice {
  private JdbcStatementAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(@Advice.This Object statement, @Advice.Argument(0) String sql) {
    return Jdbc.begin(statement, sql);
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter Span span, @Advice.Thrown Throwable thrown) {
    Trace.end(span, thrown);
  }
}
