package io.spanwise.jvm.hooks;

import io.spanwise.boot.Jdbc;
import net.bytebuddy.asm.Advice;

/** A driver opens a connection. */
public final class JdbcConnectAdvice {
  private JdbcConnectAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(@Advice.Argument(0) String url, @Advice.Return Object connection) {
    Jdbc.connected(connection, url);
  }
}
