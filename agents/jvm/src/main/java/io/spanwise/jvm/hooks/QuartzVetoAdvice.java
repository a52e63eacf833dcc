package io.spanwise.jvm.hooks;

import io.spanwise.boot.Jobs;
import net.bytebuddy.asm.Advice;

/** Quartz asks its listeners whether a job may run. */
public final class QuartzVetoAdvice {
  private QuartzVetoAdvice() {}

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Return boolean runs, @Advice.Thrown Throwable veto) {
    if (!runs || veto != null) {
      Jobs.doesNotRun();
    }
  }
}
