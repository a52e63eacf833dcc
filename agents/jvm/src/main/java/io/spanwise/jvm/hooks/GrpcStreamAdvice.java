package io.spanwise.jvm.hooks;

import io.grpc.Metadata;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Rpc;
import io.spanwise.boot.Span;
import io.spanwise.boot.Work;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** A server of gRPC receives a call. */
public final class GrpcStreamAdvice {
  private GrpcStreamAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static int enter(
      @Advice.Argument(value = 0, typing = Assigner.Typing.DYNAMIC) Object stream,
      @Advice.Argument(1) String method,
      @Advice.Argument(2) Metadata headers) {
    Span span = Rpc.receives(
        "grpc", method, headers.get(Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER)));
    if (span == null) {
      return Work.NONE;
    }
    for (String header : Propagation.read(span)) {
      Propagation.read(
          header, span, headers.get(Metadata.Key.of(header, Metadata.ASCII_STRING_MARSHALLER)));
    }
    return Rpc.received(stream, span);
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter int entered) {
    Work.leave(entered);
  }
}
