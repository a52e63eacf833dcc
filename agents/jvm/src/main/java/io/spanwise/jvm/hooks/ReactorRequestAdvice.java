package io.spanwise.jvm.hooks;

import io.spanwise.boot.Requests;
import net.bytebuddy.asm.Advice;

/** A request of Reactor Netty's client is made. */
public final class ReactorRequestAdvice {
  private ReactorRequestAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(@Advice.This Object request) {
    Requests.made(request);
  }
}
