package io.spanwise.jvm.hooks;

import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import okhttp3.Request;

/** OkHttp hands a request on. It cannot be changed, so another one is. */
public final class OkHttpHeaderAdvice {
  private OkHttpHeaderAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(value = 0, readOnly = false) Request request) {
    String header = Trace.clientTraceparent();
    if (header != null && request.header("traceparent") == null) {
      request = request.newBuilder().header("traceparent", header).build();
    }
  }
}
