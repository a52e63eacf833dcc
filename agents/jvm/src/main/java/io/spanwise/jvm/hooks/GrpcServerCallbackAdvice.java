package io.spanwise.jvm.hooks;

import io.spanwise.boot.Rpc;
import io.spanwise.boot.Work;
import net.bytebuddy.asm.Advice;

/** A server of gRPC has received a part of a call, and hands it to the program. */
public final class GrpcServerCallbackAdvice {
  private GrpcServerCallbackAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static int enter(@Advice.FieldValue("stream") Object stream) {
    return Rpc.enter(stream);
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter int entered) {
    Work.leave(entered);
  }
}
