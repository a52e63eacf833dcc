package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.undertow.Undertow;
import io.undertow.servlet.Servlets;
import io.undertow.servlet.api.DeploymentInfo;
import io.undertow.servlet.api.DeploymentManager;
import io.undertow.servlet.api.FilterInfo;
import io.undertow.servlet.api.ServletInfo;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.net.HttpURLConnection;
import java.net.URI;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Undertow. The build runs its oldest version, of javax.servlet, and its newest one. */
class UndertowTest {
  private static final Servers SERVERS = new Servers();
  private static String web;
  private static Undertow undertow;
  private static String at;

  /** What the servlets and filters of both generations do. */
  private static boolean isRefused(String path) {
    Servers.call(web + "/filtered" + path);
    return path.endsWith("/refused");
  }

  private static void serve(String path) {
    if (path.endsWith("/broken")) {
      throw new IllegalStateException("expected");
    }
    Servers.call(web + "/served" + path);
  }

  public static class JavaxServlet extends javax.servlet.http.HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(
        javax.servlet.http.HttpServletRequest request, javax.servlet.http.HttpServletResponse response) {
      serve(request.getRequestURI());
      if (request.getRequestURI().endsWith("/later")) {
        var later = request.startAsync();
        new Thread(() -> {
          Servers.call(web + "/asynchronous");
          response.setStatus(202);
          later.complete();
        }).start();
      }
    }
  }

  public static class JavaxFilter implements javax.servlet.Filter {
    @Override
    public void init(javax.servlet.FilterConfig config) {}

    @Override
    public void doFilter(
        javax.servlet.ServletRequest request, javax.servlet.ServletResponse response,
        javax.servlet.FilterChain chain) throws IOException, javax.servlet.ServletException {
      if (isRefused(((javax.servlet.http.HttpServletRequest) request).getRequestURI())) {
        ((javax.servlet.http.HttpServletResponse) response).setStatus(403);
      } else {
        chain.doFilter(request, response);
      }
    }

    @Override
    public void destroy() {}
  }

  public static class JakartaServlet extends jakarta.servlet.http.HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(
        jakarta.servlet.http.HttpServletRequest request, jakarta.servlet.http.HttpServletResponse response) {
      serve(request.getRequestURI());
      if (request.getRequestURI().endsWith("/later")) {
        var later = request.startAsync();
        new Thread(() -> {
          Servers.call(web + "/asynchronous");
          response.setStatus(202);
          later.complete();
        }).start();
      }
    }
  }

  public static class JakartaFilter implements jakarta.servlet.Filter {
    @Override
    public void doFilter(
        jakarta.servlet.ServletRequest request, jakarta.servlet.ServletResponse response,
        jakarta.servlet.FilterChain chain) throws IOException, jakarta.servlet.ServletException {
      if (isRefused(((jakarta.servlet.http.HttpServletRequest) request).getRequestURI())) {
        ((jakarta.servlet.http.HttpServletResponse) response).setStatus(403);
      } else {
        chain.doFilter(request, response);
      }
    }
  }

  /** The parameters' types are of the version's generation, which the compiler cannot know. */
  private static <T> T made(Class<T> type, String name, Class<?> of) throws ReflectiveOperationException {
    Constructor<T> constructor = type.getConstructor(String.class, Class.class);
    return constructor.newInstance(name, of);
  }

  private static void dispatch(DeploymentInfo application) throws ReflectiveOperationException {
    Class<?> type = dispatcher();
    Object request = type.getField("REQUEST").get(null);
    application.getClass().getMethod("addFilterUrlMapping", String.class, String.class, type)
        .invoke(application, "filter", "/*", request);
  }

  private static boolean isJakarta() {
    try {
      DeploymentInfo.class.getMethod(
          "addFilterUrlMapping", String.class, String.class, jakarta.servlet.DispatcherType.class);
      return true;
    } catch (NoSuchMethodException older) {
      return false;
    }
  }

  private static Class<?> dispatcher() {
    return isJakarta() ? jakarta.servlet.DispatcherType.class : javax.servlet.DispatcherType.class;
  }

  @BeforeAll
  static void start() throws Exception {
    web = SERVERS.web();
    DeploymentInfo application = new DeploymentInfo()
        .setClassLoader(UndertowTest.class.getClassLoader())
        .setContextPath("/shop")
        .setDeploymentName("shop")
        .addFilter(made(FilterInfo.class, "filter", isJakarta() ? JakartaFilter.class : JavaxFilter.class)
            .setAsyncSupported(true))
        .addServlet(made(ServletInfo.class, "servlet", isJakarta() ? JakartaServlet.class : JavaxServlet.class)
            .setAsyncSupported(true).addMapping("/*"));
    dispatch(application);
    DeploymentManager manager = Servlets.defaultContainer().addDeployment(application);
    manager.deploy();
    int port = Shop.freePort();
    undertow = Undertow.builder().addHttpListener(port, "127.0.0.1").setIoThreads(1).setWorkerThreads(4)
        .setHandler(io.undertow.Handlers.path().addPrefixPath("/shop", manager.start())).build();
    undertow.start();
    at = "http://127.0.0.1:" + port;
  }

  @AfterAll
  static void stop() throws Exception {
    if (undertow != null) {
      undertow.stop();
    }
    SERVERS.close();
  }

  /** The server's span of a request with a caller's header. */
  private static Receiver.Span ask(String path, int status) throws Exception {
    var connection = (HttpURLConnection) URI.create(at + path + "?secret").toURL().openConnection();
    assertEquals(status, connection.getResponseCode());
    connection.disconnect();
    var span = Receiver.ONE.await(it -> it.component() == 1 && path.equals(it.target()));
    var call = Servers.called(path);
    assertEquals(call.id(), span.parent());
    assertEquals(call.trace(), span.trace());
    assertEquals("GET", span.name());
    assertTrue(span.clientPort() > 0);
    assertEquals(1, Receiver.ONE.all().stream()
        .filter(it -> it.component() == 1 && path.equals(it.target())).count());
    return span;
  }

  @Test
  void filtersAndServletsAreWithinTheRequest() throws Exception {
    var span = ask("/shop/order", 200);
    assertEquals(200, span.status());
    assertEquals(span.id(), Servers.called("/filtered/shop/order").parent());
    assertEquals(span.id(), Servers.called("/served/shop/order").parent());
  }

  @Test
  void whatAFilterRefusesIsARequest() throws Exception {
    var span = ask("/shop/refused", 403);
    assertEquals(403, span.status());
    assertEquals(span.id(), Servers.called("/filtered/shop/refused").parent());
  }

  @Test
  void failures() throws Exception {
    var span = ask("/shop/broken", 500);
    assertTrue(span.failed());
    assertEquals("java.lang.IllegalStateException", span.error());
  }

  @Test
  void asynchronousRequests() throws Exception {
    var span = ask("/shop/later", 202);
    assertEquals(202, span.status());
    assertEquals(span.id(), Servers.called("/asynchronous").parent());
  }
}
