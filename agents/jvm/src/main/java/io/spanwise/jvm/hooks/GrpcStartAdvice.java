package io.spanwise.jvm.hooks;

import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Rpc;
import io.spanwise.boot.Span;
import net.bytebuddy.asm.Advice;

/** A call of gRPC begins. */
public final class GrpcStartAdvice {
  private GrpcStartAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(
      @Advice.This Object call,
      @Advice.FieldValue("method") MethodDescriptor<?, ?> method,
      @Advice.Argument(1) Metadata headers) {
    Span span = Rpc.calls(call, "grpc", method.getFullMethodName());
    if (span != null) {
      for (String header : Propagation.written()) {
        String value = Propagation.value(header, span);
        if (value != null) {
          Metadata.Key<String> key = Metadata.Key.of(header, Metadata.ASCII_STRING_MARSHALLER);
          headers.discardAll(key);
          headers.put(key, value);
        }
      }
    }
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.This Object call, @Advice.Thrown Throwable thrown) {
    if (thrown != null) {
      Rpc.ends(call, 2, thrown, null);
    }
  }
}
