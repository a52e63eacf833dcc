package io.spanwise.jvm.hooks;

import io.spanwise.boot.Jdbc;
import net.bytebuddy.asm.Advice;

/** A connection makes a statement. */
public final class JdbcCreateAdvice {
  private JdbcCreateAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(@Advice.This Object connection, @Advice.Return Object statement) {
    Jdbc.created(connection, statement, null);
  }
}
