package io.spanwise.jvm.hooks;

import io.spanwise.boot.Kafka;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** A producer or a consumer of Kafka is made. */
public final class KafkaMadeAdvice {
  private KafkaMadeAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(
      @Advice.This Object client,
      @Advice.Argument(value = 0, typing = Assigner.Typing.DYNAMIC) Object settings) {
    Kafka.made(client, settings);
  }
}
