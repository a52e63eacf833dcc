package io.spanwise.jvm.hooks;

import io.spanwise.boot.Context;
import io.spanwise.boot.Jobs;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import java.lang.reflect.Method;
import net.bytebuddy.asm.Advice;

/** A method of a program with Spring's {@code @Scheduled} runs. */
public final class SpringJobAdvice {
  private SpringJobAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(
      @Advice.This Object task,
      @Advice.FieldValue("target") Object target,
      @Advice.FieldValue("method") Method method,
      @Advice.Local("before") int before) {
    before = -1;
    before = Trace.enter((Context) null);
    return Jobs.begin(task, target, method);
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
