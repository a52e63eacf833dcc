package io.spanwise.jvm.hooks;

import io.spanwise.boot.Jdbc;
import net.bytebuddy.asm.Advice;

/** A connection prepares a statement. */
public final class JdbcPrepareAdvice {
  private JdbcPrepareAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(
      @Advice.This Object connection,
      @Advice.Argument(0) String sql,
      @Advice.Return Object statement) {
    Jdbc.created(connection, statement, sql);
  }
}
