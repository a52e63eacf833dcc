package io.spanwise.jvm.hooks;

import io.spanwise.boot.Rpc;
import io.spanwise.boot.Work;
import net.bytebuddy.asm.Advice;

/** A call of gRPC has received something, and hands it to its caller. */
public final class GrpcClientCallbackAdvice {
  private GrpcClientCallbackAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static int enter(@Advice.FieldValue("this$0") Object call) {
    return Rpc.enter(call);
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter int entered) {
    Work.leave(entered);
  }
}
