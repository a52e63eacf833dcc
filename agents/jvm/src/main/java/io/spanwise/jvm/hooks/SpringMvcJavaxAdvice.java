package io.spanwise.jvm.hooks;

import io.spanwise.boot.Routes;
import javax.servlet.http.HttpServletRequest;
import net.bytebuddy.asm.Advice;

/** Spring MVC has handled a request (javax.servlet). */
public final class SpringMvcJavaxAdvice {
  private SpringMvcJavaxAdvice() {}

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Argument(0) HttpServletRequest request) {
    Routes.spring(
        request.getContextPath(),
        request.getServletPath(),
        request.getPathInfo(),
        request.getAttribute("org.springframework.web.servlet.HandlerMapping.bestMatchingPattern"));
  }
}
