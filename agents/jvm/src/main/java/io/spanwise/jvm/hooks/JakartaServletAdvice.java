package io.spanwise.jvm.hooks;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Listener;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** A request of a servlet container (jakarta.servlet). */
public final class JakartaServletAdvice {
  private JakartaServletAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(
      @Advice.Argument(value = 0, typing = Assigner.Typing.DYNAMIC) Object asked,
      @Advice.Local("before") int before) {
    before = -1;
    if (!Hooks.servlet || !(asked instanceof HttpServletRequest)) {
      return null;
    }
    HttpServletRequest request = (HttpServletRequest) asked;
    Object open = request.getAttribute("io.spanwise.span");
    if (open != null) {
      // Dispatched again by another thread.
      if (open instanceof Span) {
        before = Trace.enter((Span) open);
      }
      return null;
    }
    Span span = Trace.receive(
        Span.HTTP_SERVER, request.getMethod(), request.getRequestURI(), request.getHeader("traceparent"));
    if (span != null) {
      span.clientPort(request.getRemotePort());
      for (String header : Propagation.read(span)) {
        Propagation.read(header, span, request.getHeader(header));
      }
    }
    return span;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.Argument(value = 0, typing = Assigner.Typing.DYNAMIC) Object asked,
      @Advice.Argument(value = 1, typing = Assigner.Typing.DYNAMIC) Object answered,
      @Advice.Enter Span span,
      @Advice.Local("before") int before,
      @Advice.Thrown Throwable thrown) {
    Trace.restore(before);
    if (span == null) {
      return;
    }
    HttpServletRequest request = (HttpServletRequest) asked;
    if (thrown == null && request.isAsyncStarted()) {
      // Ended here only if the response is complete already.
      Span later = Trace.detach(span);
      request.setAttribute("io.spanwise.span", later);
      try {
        request.getAsyncContext().addListener(Listener.of(AsyncListener.class, later, null));
        return;
      } catch (IllegalStateException over) {
        Trace.end(later, ((HttpServletResponse) answered).getStatus(), null);
        return;
      }
    }
    Trace.end(span, ((HttpServletResponse) answered).getStatus(), thrown);
  }
}
