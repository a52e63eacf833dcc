package io.spanwise.jvm.hooks;

import io.spanwise.boot.Propagation;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import okhttp3.Request;

/** OkHttp hands a request on. It cannot be changed, so another one is. */
public final class OkHttpHeaderAdvice {
  private OkHttpHeaderAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(value = 0, readOnly = false) Request request) {
    Span span = Trace.clientSpan();
    if (span == null) {
      return;
    }
    Request.Builder other = null;
    for (String header : Propagation.written()) {
      String value = Propagation.value(header, span);
      String now = request.header(header);
      if (value != null && (now == null || Propagation.replaces(header) && !value.equals(now))) {
        if (other == null) {
          other = request.newBuilder();
        }
        other.header(header, value);
      }
    }
    if (other != null) {
      request = other.build();
    }
  }
}
