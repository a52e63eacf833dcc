package io.spanwise.jvm.hooks;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import org.apache.hc.core5.http.ClassicHttpRequest;
import org.apache.hc.core5.http.ClassicHttpResponse;

/** A request of Apache HttpClient 5 that is waited for, each that follows a redirect too. */
public final class Apache5Advice {
  private Apache5Advice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(@Advice.Argument(0) ClassicHttpRequest request) {
    if (!Hooks.httpClient) {
      return null;
    }
    String path = request.getPath();
    int query = path == null ? -1 : path.indexOf('?');
    Span span = Trace.send(
        Span.HTTP_CLIENT,
        request.getMethod(),
        query < 0 ? path : path.substring(0, query),
        request.getAuthority() == null
            ? null
            : request.getAuthority().getHostName() + (request.getAuthority().getPort() < 0
                ? "" : ":" + request.getAuthority().getPort()));
    if (span != null) {
      for (String header : Propagation.written()) {
        String value = Propagation.value(header, span);
        if (value != null && (Propagation.replaces(header) || !request.containsHeader(header))) {
          request.setHeader(header, value);
        }
      }
    }
    return span;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.Enter Span span,
      @Advice.Return ClassicHttpResponse response,
      @Advice.Thrown Throwable thrown) {
    Trace.end(span, response == null ? 0 : response.getCode(), thrown);
  }
}
