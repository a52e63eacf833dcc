package io.spanwise.jvm.hooks;

import io.spanwise.boot.Context;
import io.spanwise.boot.Jobs;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import org.quartz.JobExecutionContext;

/** Quartz runs a job, and tells its store afterwards. */
public final class QuartzRunAdvice {
  private QuartzRunAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(
      @Advice.FieldValue(value = "jec", typing = Assigner.Typing.DYNAMIC) Object run,
      @Advice.Local("before") int before) {
    before = -1;
    before = Trace.enter((Context) null);
    return run == null ? null : Jobs.begin(((JobExecutionContext) run).getJobDetail().getJobClass());
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.Enter Span span,
      @Advice.Local("before") int before,
      @Advice.Thrown Throwable thrown) {
    Trace.end(span, thrown);
    Trace.restore(before);
  }
}
