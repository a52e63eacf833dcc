package io.spanwise.jvm.hooks;

import net.bytebuddy.asm.Advice;

/** RocketMQ calls what runs around a listener only if it is told that there is something. */
public final class RocketHasHookAdvice {
  private RocketHasHookAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(@Advice.Return(readOnly = false) boolean has) {
    has = true;
  }
}
