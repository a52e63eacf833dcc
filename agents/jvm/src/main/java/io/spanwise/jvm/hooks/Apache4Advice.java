package io.spanwise.jvm.hooks;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import org.apache.http.client.methods.CloseableHttpResponse;
import org.apache.http.client.methods.HttpRequestWrapper;
import org.apache.http.conn.routing.HttpRoute;

/** A request of Apache HttpClient 4, each that follows a redirect too. */
public final class Apache4Advice {
  private Apache4Advice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(
      @Advice.Argument(0) HttpRoute route, @Advice.Argument(1) HttpRequestWrapper request) {
    if (!Hooks.httpClient) {
      return null;
    }
    Span span = Trace.send(
        Span.HTTP_CLIENT,
        request.getRequestLine().getMethod(),
        request.getURI() == null ? null : request.getURI().getRawPath(),
        route.getTargetHost().toHostString());
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
      @Advice.Return CloseableHttpResponse response,
      @Advice.Thrown Throwable thrown) {
    Trace.end(span, response == null ? 0 : response.getStatusLine().getStatusCode(), thrown);
  }
}
