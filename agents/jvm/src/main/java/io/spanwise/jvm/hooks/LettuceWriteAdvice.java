package io.spanwise.jvm.hooks;

import io.spanwise.boot.Redis;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** Lettuce writes a command to a connection. */
public final class LettuceWriteAdvice {
  private LettuceWriteAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(
      @Advice.FieldValue(value = "channel", typing = Assigner.Typing.DYNAMIC) Object channel) {
    Redis.writes(channel);
  }
}
