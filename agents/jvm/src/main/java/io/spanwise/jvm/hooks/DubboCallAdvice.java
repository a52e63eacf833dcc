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

/** A call of Dubbo. It may be answered later. */
public final class DubboCallAdvice {
  private DubboCallAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(@Advice.This Object invoker, @Advice.Argument(0) Invocation call) {
    if (!Hooks.rpc) {
      return null;
    }
    Invoker<?> to = (Invoker<?>) invoker;
    Object[] arguments = call.getArguments();
    String method = call.getMethodName();
    if (method.startsWith("$invoke") && arguments != null && arguments.length > 0 && arguments[0] instanceof String) {
      method = (String) arguments[0];
    }
    String service = to.getUrl().getServiceInterface();
    Span span = Trace.send(
        Span.RPC_CLIENT,
        "dubbo",
        (service == null ? to.getInterface().getName() : service) + "/" + method,
        to.getUrl().getAddress());
    if (span != null) {
      for (String header : Propagation.written()) {
        String value = Propagation.value(header, span);
        if (value != null) {
          call.setAttachment(header, value);
        }
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
