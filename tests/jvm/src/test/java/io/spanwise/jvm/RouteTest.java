package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.config.annotation.EnableWebMvc;

/** Routes of requests, as frameworks on servlets know them. */
class RouteTest {
  private static int ask(String url) throws Exception {
    return HttpClient.newHttpClient().send(
        HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.discarding()).statusCode();
  }

  private static String route(String target) throws Exception {
    return Receiver.ONE.await(span -> span.component() == 1 && target.equals(span.target())).peer();
  }

  @RestController
  @RequestMapping("/owners")
  static class Owners {
    @GetMapping("/{id}/pets/{pet}")
    String pet(@PathVariable("id") String id, @PathVariable("pet") String pet) {
      return id + pet;
    }

    @GetMapping("/{id}/later")
    Callable<String> later(@PathVariable("id") String id) {
      return () -> {
        Thread.sleep(50);
        return id;
      };
    }

    @GetMapping("/{id}/fails")
    String fails(@PathVariable("id") String id) {
      throw new IllegalStateException(id);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @EnableWebMvc
  static class Config {
    @Bean
    Owners owners() {
      return new Owners();
    }
  }

  private static DispatcherServlet dispatcher() {
    var context = new AnnotationConfigWebApplicationContext();
    context.register(Config.class);
    return new DispatcherServlet(context);
  }

  @Test
  void ofSpringMvc() throws Exception {
    try (Servlets servlets = new Servlets(dispatcher(), "/shop", "/", Map.of())) {
      assertEquals(200, ask(servlets.at + "/shop/owners/1/pets/2"));
      assertEquals("/shop/owners/{id}/pets/{pet}", route("/shop/owners/1/pets/2"));
      assertEquals(200, ask(servlets.at + "/shop/owners/1/later"));
      assertEquals("/shop/owners/{id}/later", route("/shop/owners/1/later"));
      assertEquals(500, ask(servlets.at + "/shop/owners/1/fails"));
      assertEquals("/shop/owners/{id}/fails", route("/shop/owners/1/fails"));
      assertEquals(404, ask(servlets.at + "/shop/none"));
      assertNull(route("/shop/none"));
    }
    try (Servlets servlets = new Servlets(dispatcher(), "", "/web/*", Map.of())) {
      assertEquals(200, ask(servlets.at + "/web/owners/1/pets/3"));
      assertEquals("/web/owners/{id}/pets/{pet}", route("/web/owners/1/pets/3"));
    }
  }

  @javax.ws.rs.Path("/items")
  @jakarta.ws.rs.Path("/items")
  public static class Items {
    @javax.ws.rs.GET
    @jakarta.ws.rs.GET
    @javax.ws.rs.Path("{id}/parts/{part}")
    @jakarta.ws.rs.Path("{id}/parts/{part}")
    public String part(
        @javax.ws.rs.PathParam("id") @jakarta.ws.rs.PathParam("id") String id,
        @javax.ws.rs.PathParam("part") @jakarta.ws.rs.PathParam("part") String part) {
      return id + part;
    }

    @javax.ws.rs.GET
    @jakarta.ws.rs.GET
    public String all() {
      return "all";
    }
  }

  private static void choose(String runtime) throws Exception {
    for (String name : new String[] {"javax", "jakarta"}) {
      System.setProperty(name + ".ws.rs.ext.RuntimeDelegate", runtime);
    }
  }

  /** Extends the application class of whichever generation the library has. */
  public static final class JavaxApplication extends javax.ws.rs.core.Application {
    @Override
    public Set<Class<?>> getClasses() {
      return Set.of(Items.class);
    }
  }

  public static final class JakartaApplication extends jakarta.ws.rs.core.Application {
    @Override
    public Set<Class<?>> getClasses() {
      return Set.of(Items.class);
    }
  }

  private static void ofRs(Object servlet, String context) throws Exception {
    String application =
        (servlet instanceof javax.servlet.Servlet ? JavaxApplication.class : JakartaApplication.class).getName();
    var parameters = Map.of(
        "javax.ws.rs.Application", application,
        "jakarta.ws.rs.Application", application,
        "resteasy.servlet.mapping.prefix", "/api",
        // What other libraries of these tests bring is of the other generation.
        "jersey.config.disableAutoDiscovery", "true");
    try (Servlets servlets = new Servlets(servlet, context, "/api/*", parameters)) {
      assertEquals(200, ask(servlets.at + context + "/api/items/1/parts/2"));
      assertEquals(context + "/api/items/{id}/parts/{part}", route(context + "/api/items/1/parts/2"));
      assertEquals(200, ask(servlets.at + context + "/api/items"));
      assertEquals(context + "/api/items", route(context + "/api/items"));
      assertEquals(404, ask(servlets.at + context + "/api/none"));
      assertNull(route(context + "/api/none"));
    }
  }

  /** The first of two runtimes would stay, so each has a virtual machine of its own. */
  static class JerseyCase {
    static void run() throws Exception {
      choose("org.glassfish.jersey.server.internal.RuntimeDelegateImpl");
      ofRs(Class.forName("org.glassfish.jersey.servlet.ServletContainer").getConstructor().newInstance(), "/jersey");
    }
  }

  static class ResteasyCase {
    static void run() throws Exception {
      boolean isOld = RouteTest.class.getResource("/org/jboss/resteasy/spi/metadata/ResourceLocator.class") != null
          && RouteTest.class.getResource("/org/jboss/resteasy/core/providerfactory/ResteasyProviderFactoryImpl.class") == null;
      choose(isOld
          ? "org.jboss.resteasy.spi.ResteasyProviderFactory"
          : "org.jboss.resteasy.core.providerfactory.ResteasyProviderFactoryImpl");
      ofRs(Class.forName("org.jboss.resteasy.plugins.server.servlet.HttpServletDispatcher")
          .getConstructor().newInstance(), "/resteasy");
    }
  }
}
