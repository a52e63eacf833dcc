package io.spanwise.jvm.hooks;

import io.spanwise.boot.Routes;
import java.util.List;
import net.bytebuddy.asm.Advice;
import org.glassfish.jersey.server.ExtendedUriInfo;
import org.glassfish.jersey.server.internal.process.RequestProcessingContext;
import org.glassfish.jersey.uri.UriTemplate;

/** Jersey has found the method of a resource. */
public final class JerseyAdvice {
  private JerseyAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(0) RequestProcessingContext context) {
    ExtendedUriInfo uri = context.request().getUriInfo();
    List<UriTemplate> templates = uri.getMatchedTemplates();
    String route = "";
    for (UriTemplate template : templates) {
      // The last one that matched comes first.
      route = Routes.joined(template.getTemplate(), route);
    }
    Routes.below(uri, route);
  }
}
