package io.spanwise.jvm.hooks;

import io.spanwise.boot.Context;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import org.springframework.web.server.ServerWebExchange;

/** Spring WebFlux takes a request, which any thread may handle from now on. */
public final class WebFluxBeginAdvice {
  private WebFluxBeginAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(0) ServerWebExchange exchange) {
    Context context = Trace.capture();
    if (context != null) {
      exchange.getAttributes().put("io.spanwise.context", context);
    }
  }
}
