package io.spanwise.jvm.hooks.java11;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Listener;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import java.net.http.HttpRequest;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import net.bytebuddy.asm.Advice;

/**
 * A request of {@code java.net.http}. Requests that wait are made of those that do not. A request
 * cannot be changed, so another one is sent.
 */
public final class JavaHttpAdvice {
  private JavaHttpAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(@Advice.Argument(value = 0, readOnly = false) HttpRequest request) {
    if (!Hooks.httpClient || request == null) {
      return null;
    }
    Span span = Trace.send(
        Span.HTTP_CLIENT, request.method(), request.uri().getPath(), request.uri().getRawAuthority());
    if (span == null) {
      return span;
    }
    HttpRequest.Builder other = HttpRequest.newBuilder(request.uri());
    if (request.bodyPublisher().isPresent()) {
      other.method(request.method(), request.bodyPublisher().get());
    } else if (request.method().equals("GET")) {
      other.GET();
    } else if (request.method().equals("DELETE")) {
      other.DELETE();
    } else {
      other.method(request.method(), HttpRequest.BodyPublishers.noBody());
    }
    other.expectContinue(request.expectContinue());
    if (request.timeout().isPresent()) {
      other.timeout(request.timeout().get());
    }
    if (request.version().isPresent()) {
      other.version(request.version().get());
    }
    for (Map.Entry<String, List<String>> header : request.headers().map().entrySet()) {
      for (String value : header.getValue()) {
        other.header(header.getKey(), value);
      }
    }
    for (String header : Propagation.written()) {
      String value = Propagation.value(header, span);
      if (value != null
          && (Propagation.replaces(header) || !request.headers().firstValue(header).isPresent())) {
        other.setHeader(header, value);
      }
    }
    request = other.build();
    return span;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.Enter Span span,
      @Advice.Return CompletableFuture<?> future,
      @Advice.Thrown Throwable thrown) {
    if (span == null) {
      return;
    }
    Span later = Trace.detach(span);
    if (future == null) {
      Trace.end(later, thrown);
    } else {
      future.whenComplete(Listener.whenComplete(later));
    }
  }
}
