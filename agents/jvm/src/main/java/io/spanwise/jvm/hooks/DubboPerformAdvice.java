package io.spanwise.jvm.hooks;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Rpc;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import org.apache.dubbo.rpc.Invocation;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.Result;

/** A call that Dubbo performs. It may be answered later. */
public final class DubboPerformAdvice {
  private DubboPerformAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(@Advice.This Object invoker, @Advice.Argument(0) Invocation call) {
    if (!Hooks.rpc) {
      return null;
    }
    Span span = Trace.receive(
        Span.RPC_SERVER,
        "dubbo",
        ((Invoker<?>) invoker).getInterface().getName() + "/" + call.getMethodName(),
        call.getAttachment("traceparent"));
    if (span != null) {
      for (String header : Propagation.read(span)) {
        Propagation.read(header, span, call.getAttachment(header));
      }
    }
    return span;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.Enter Span span, @Advice.Return Result result, @Advice.Thrown Throwable thrown) {
    if (span == null) {
      return;
    }
    if (thrown != null || result == null) {
      Trace.end(span, thrown);
      return;
    }
    Span later = Trace.detach(span);
    result.whenCompleteWithContext(Rpc.whenComplete(later));
  }
}
