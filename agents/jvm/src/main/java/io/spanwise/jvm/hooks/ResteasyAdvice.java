package io.spanwise.jvm.hooks;

import io.spanwise.boot.Routes;
import net.bytebuddy.asm.Advice;

/** RESTEasy has found the method of a resource. */
public final class ResteasyAdvice {
  private ResteasyAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(0) Object request, @Advice.FieldValue("method") Object method) {
    Routes.resteasy(request, method);
  }
}
