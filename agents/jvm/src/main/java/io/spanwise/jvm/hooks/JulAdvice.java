package io.spanwise.jvm.hooks;

import io.spanwise.boot.Logs;
import net.bytebuddy.asm.Advice;

/** A line of java.util.logging is made. */
public final class JulAdvice {
  private JulAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(@Advice.Return(readOnly = false) String text) {
    text = Logs.line(text);
  }
}
