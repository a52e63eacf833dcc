package io.spanwise.jvm.hooks;

import io.spanwise.boot.Routes;
import net.bytebuddy.asm.Advice;
import org.springframework.web.server.ServerWebExchange;

/** Spring WebFlux has found who handles a request. */
public final class WebFluxAdvice {
  private WebFluxAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(0) ServerWebExchange exchange) {
    Routes.webFlux(
        exchange.getAttribute("io.spanwise.context"),
        exchange.getAttribute("org.springframework.web.reactive.HandlerMapping.bestMatchingPattern"),
        exchange.getAttribute("org.springframework.web.reactive.function.server.RouterFunctions.matchingPattern"));
  }
}
