package io.spanwise.jvm.hooks;

import io.grpc.Status;
import io.spanwise.boot.Rpc;
import net.bytebuddy.asm.Advice;

/** A server of gRPC closes a call with a status. */
public final class GrpcAnswerAdvice {
  private GrpcAnswerAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.This Object stream, @Advice.Argument(0) Status status) {
    Rpc.ends(stream, status.getCode().value(), status.getCause(), null);
  }
}
