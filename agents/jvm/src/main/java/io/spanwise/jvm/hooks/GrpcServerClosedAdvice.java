package io.spanwise.jvm.hooks;

import io.grpc.Status;
import io.spanwise.boot.Rpc;
import io.spanwise.boot.Work;
import net.bytebuddy.asm.Advice;

/** A call that a server of gRPC performs has closed: it has answered, or its caller is gone. */
public final class GrpcServerClosedAdvice {
  private GrpcServerClosedAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static int enter(@Advice.FieldValue("stream") Object stream, @Advice.Argument(0) Status status) {
    int entered = Rpc.enter(stream);
    Rpc.ends(stream, status.getCode().value(), status.getCause(), null);
    Rpc.forget(stream);
    return entered;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter int entered) {
    Work.leave(entered);
  }
}
