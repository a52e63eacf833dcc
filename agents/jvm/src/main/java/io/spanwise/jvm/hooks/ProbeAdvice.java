package io.spanwise.jvm.hooks;

import net.bytebuddy.asm.Advice;

/** Shows that weaving works. */
public final class ProbeAdvice {
  private ProbeAdvice() {}

  @Advice.OnMethodExit
  static void exit(@Advice.Return(readOnly = false) boolean woven) {
    woven = true;
  }
}
