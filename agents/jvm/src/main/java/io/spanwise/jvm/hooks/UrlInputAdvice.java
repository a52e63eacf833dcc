package io.spanwise.jvm.hooks;

import io.spanwise.boot.UrlConnections;
import java.net.HttpURLConnection;
import net.bytebuddy.asm.Advice;

/** A response is waited for. */
public final class UrlInputAdvice {
  private UrlInputAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.This HttpURLConnection connection) {
    UrlConnections.begin(connection);
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.This HttpURLConnection connection,
      @Advice.FieldValue("responses") Object responses,
      @Advice.Thrown Throwable thrown) {
    UrlConnections.end(connection, responses != null, thrown);
  }
}
