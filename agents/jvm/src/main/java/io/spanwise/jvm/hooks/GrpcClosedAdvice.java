package io.spanwise.jvm.hooks;

import io.grpc.ClientCall;
import io.grpc.Grpc;
import io.grpc.Status;
import io.spanwise.boot.Rpc;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** A call of gRPC is closed. */
public final class GrpcClosedAdvice {
  private GrpcClosedAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(
      @Advice.This(typing = Assigner.Typing.DYNAMIC) Object call, @Advice.Argument(1) Status status) {
    Rpc.ends(
        call,
        status.getCode().value(),
        status.getCause(),
        ((ClientCall<?, ?>) call).getAttributes().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR));
    Rpc.forget(call);
  }
}
