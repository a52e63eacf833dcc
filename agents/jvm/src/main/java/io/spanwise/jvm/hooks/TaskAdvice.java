package io.spanwise.jvm.hooks;

import io.spanwise.boot.Work;
import net.bytebuddy.asm.Advice;

/** An executor of a library takes a task, which works for whoever hands it over. */
public final class TaskAdvice {
  private TaskAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(value = 0, readOnly = false) Runnable task) {
    task = Work.wrap(task);
  }
}
