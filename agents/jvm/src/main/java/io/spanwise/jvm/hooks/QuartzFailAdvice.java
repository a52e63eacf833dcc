package io.spanwise.jvm.hooks;

import io.spanwise.boot.Jobs;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** Quartz tells its listeners what a job has thrown, which goes no further. */
public final class QuartzFailAdvice {
  private QuartzFailAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(value = 1, typing = Assigner.Typing.DYNAMIC) Object thrown) {
    if (thrown instanceof Throwable) {
      Jobs.failed((Throwable) thrown);
    }
  }
}
