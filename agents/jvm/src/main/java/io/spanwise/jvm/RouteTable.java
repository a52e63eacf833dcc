package io.spanwise.jvm;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.namedOneOf;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.util.List;

/** The hooks that learn the routes of requests. */
final class RouteTable {
  private static final String FLUX = "org.springframework.web.reactive.";

  private RouteTable() {}

  static void add(List<Hook> all) {
    for (String servlet : new String[] {"javax", "jakarta"}) {
      all.add(new Hook("route: Spring MVC?", named("org.springframework.web.servlet.DispatcherServlet"),
          named("doDispatch")
              .and(takesArgument(0, named(servlet + ".servlet.http.HttpServletRequest"))),
          servlet.equals("javax") ? "SpringMvcJavaxAdvice" : "SpringMvcJakartaAdvice"));
    }
    all.add(new Hook("route: Spring WebFlux", named(FLUX + "DispatcherHandler"),
        named("handle").and(takesArguments(1)), "WebFluxBeginAdvice"));
    all.add(new Hook("route: Spring WebFlux",
        namedOneOf(
            FLUX + "result.method.annotation.RequestMappingHandlerAdapter",
            FLUX + "function.server.support.HandlerFunctionAdapter",
            FLUX + "result.SimpleHandlerAdapter"),
        named("handle").and(takesArguments(2)), "WebFluxAdvice"));
    all.add(new Hook("route: Jersey", named("org.glassfish.jersey.server.model.ResourceMethodInvoker"),
        named("apply").and(takesArgument(0,
            named("org.glassfish.jersey.server.internal.process.RequestProcessingContext"))),
        "JerseyAdvice"));
    all.add(new Hook("route: RESTEasy", named("org.jboss.resteasy.core.ResourceMethodInvoker"),
        named("invoke").and(takesArguments(2)), "ResteasyAdvice"));
  }
}
