package io.spanwise.jvm.hooks;

import io.spanwise.boot.UrlConnections;
import java.net.HttpURLConnection;
import net.bytebuddy.asm.Advice;

/** A request begins. */
public final class UrlConnectAdvice {
  private UrlConnectAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.This HttpURLConnection connection) {
    UrlConnections.begin(connection);
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.This HttpURLConnection connection, @Advice.Thrown Throwable thrown) {
    if (thrown != null) {
      UrlConnections.end(connection, false, thrown);
    }
  }
}
