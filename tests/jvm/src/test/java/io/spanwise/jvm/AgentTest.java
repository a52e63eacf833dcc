package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.catalina.startup.Tomcat;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The agent is attached to the virtual machine of these tests. Each test has paths of its own. */
class AgentTest {
  private static final Receiver RECEIVER = Receiver.ONE;
  private static final ExecutorService POOL = Executors.newFixedThreadPool(2);
  private static final HttpClient CLIENT = HttpClient.newHttpClient();
  private static Tomcat tomcat;
  private static Server jetty;
  private static String tomcatAt;
  private static String jettyAt;

  /** Statements for H2 and Derby. */
  private static void query(String url, String sql) throws SQLException {
    try (Connection connection = DriverManager.getConnection(url)) {
      try (var prepared = connection.prepareStatement(sql)) {
        prepared.executeQuery().close();
      }
    }
  }

  private static final String H2 = "jdbc:h2:mem:test";
  private static final String DERBY = "jdbc:derby:memory:test;create=true";

  /** What both servers do. */
  private static int serve(String path, String query) throws Exception {
    switch (path) {
      case "/query":
        query(H2, "select 'secret', 42");
        return 200;
      case "/derby":
        query(DERBY, "values 7");
        return 200;
      case "/wrong":
        try {
          query(H2, "select nothing from nowhere");
        } catch (SQLException expected) {
          return 200;
        }
        return 500;
      case "/pool":
        POOL.submit(() -> call(jettyAt + "/called-by-pool")).get();
        return 200;
      case "/future":
        CompletableFuture.supplyAsync(() -> 1, POOL)
            .thenAccept(one -> call(jettyAt + "/called-by-future")).get();
        return 200;
      case "/thread":
        Thread thread = new Thread(() -> call(jettyAt + "/called-by-thread"));
        thread.start();
        thread.join();
        return 200;
      case "/client":
        CLIENT.send(
            HttpRequest.newBuilder(URI.create(jettyAt + "/called-by-client")).build(),
            HttpResponse.BodyHandlers.discarding());
        return 200;
      case "/fails":
        return 503;
      default:
        return 200;
    }
  }

  private static int call(String url) {
    try {
      var connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
      return connection.getResponseCode();
    } catch (IOException failure) {
      throw new IllegalStateException(failure);
    }
  }

  static final class OfTomcat extends javax.servlet.http.HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(
        javax.servlet.http.HttpServletRequest request,
        javax.servlet.http.HttpServletResponse response) throws IOException {
      if (request.getRequestURI().equals("/later")) {
        var later = request.startAsync();
        POOL.execute(() -> {
          try {
            Thread.sleep(200);
          } catch (InterruptedException interrupted) {
            return;
          }
          response.setStatus(202);
          later.complete();
        });
        return;
      }
      try {
        response.setStatus(serve(request.getRequestURI(), request.getQueryString()));
      } catch (Exception failure) {
        throw new IOException(failure);
      }
    }
  }

  static final class OfJetty extends jakarta.servlet.http.HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(
        jakarta.servlet.http.HttpServletRequest request,
        jakarta.servlet.http.HttpServletResponse response) throws IOException {
      if (request.getRequestURI().equals("/throws")) {
        throw new IllegalStateException("expected");
      }
      try {
        response.setStatus(serve(request.getRequestURI(), request.getQueryString()));
      } catch (Exception failure) {
        throw new IOException(failure);
      }
    }
  }

  @BeforeAll
  static void start() throws Exception {
    tomcat = new Tomcat();
    tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
    tomcat.setPort(0);
    var context = tomcat.addContext("", null);
    Tomcat.addServlet(context, "all", new OfTomcat()).setAsyncSupported(true);
    context.addServletMappingDecoded("/", "all");
    tomcat.start();
    tomcatAt = "http://127.0.0.1:" + tomcat.getConnector().getLocalPort();
    jetty = new Server();
    ServerConnector connector = new ServerConnector(jetty);
    jetty.addConnector(connector);
    ServletContextHandler handler = new ServletContextHandler();
    handler.addServlet(new ServletHolder(new OfJetty()), "/");
    jetty.setHandler(handler);
    jetty.start();
    jettyAt = "http://127.0.0.1:" + connector.getLocalPort();
  }

  @AfterAll
  static void stop() throws Exception {
    tomcat.stop();
    jetty.stop();
    POOL.shutdown();
  }

  private static Receiver.Span server(String path) throws InterruptedException {
    return RECEIVER.await(span -> span.component() == 1 && path.equals(span.target()));
  }

  private static Receiver.Span client(String path) throws InterruptedException {
    return RECEIVER.await(span -> span.component() == 2 && path.equals(span.target()));
  }

  @Test
  void aStatementIsWithinItsRequest() throws Exception {
    call(tomcatAt + "/query?q=secret");
    var server = server("/query");
    var statement = RECEIVER.await(span ->
        span.component() == 3 && "select ?, ?".equals(span.target()));
    assertEquals("GET", server.name());
    assertEquals(200, server.status());
    assertEquals(server.id(), statement.parent());
    assertEquals(server.trace(), statement.trace());
    assertEquals("SELECT", statement.name());
    assertEquals("h2:mem:test", statement.peer());
    var client = client("/query");
    assertEquals(client.id(), server.parent());
    assertTrue(RECEIVER.all().stream().noneMatch(span -> String.valueOf(span).contains("secret")));
  }

  @Test
  void derbyAndJetty() throws Exception {
    call(jettyAt + "/derby");
    var statement = RECEIVER.await(span -> span.component() == 3 && "values ?".equals(span.target()));
    assertEquals(server("/derby").id(), statement.parent());
    assertEquals("derby:memory:test", statement.peer());
  }

  @Test
  void aStatementThatFailsIsSaid() throws Exception {
    call(tomcatAt + "/wrong");
    var server = server("/wrong");
    assertFalse(server.failed());
    RECEIVER.await(span -> span.component() == 1 && span.id() == server.id());
  }

  @Test
  void statusesAreFailures() throws Exception {
    call(tomcatAt + "/fails");
    assertTrue(server("/fails").failed());
    assertEquals(503, server("/fails").status());
    assertTrue(client("/fails").failed());
    call(jettyAt + "/throws");
    assertTrue(server("/throws").failed());
    assertEquals("java.lang.IllegalStateException", server("/throws").error());
  }

  @Test
  void aRequestThatIsAnsweredLaterEndsThen() throws Exception {
    call(tomcatAt + "/later");
    assertEquals(202, server("/later").status());
    assertTrue(server("/later").durationNano() >= 190_000_000L);
  }

  @Test
  void workOnOtherThreadsBelongsToItsRequest() throws Exception {
    for (String by : new String[] {"pool", "future", "thread", "client"}) {
      call(tomcatAt + "/" + by);
      var outer = server("/" + by);
      var call = client("/called-by-" + by);
      var inner = server("/called-by-" + by);
      assertEquals(outer.id(), call.parent(), by);
      assertEquals(call.id(), inner.parent(), by);
      assertEquals(outer.trace(), inner.trace(), by);
    }
  }

  @Test
  void theCallersHeaderCounts() throws Exception {
    String trace = "0af7651916cd43dd8448eb211c80319c";
    Shop.ask(tomcatAt + "/header", "traceparent", "00-" + trace + "-b7ad6b7169203331-01");
    assertEquals(trace, server("/header").trace());
    assertEquals(0xb7ad6b7169203331L, server("/header").parent());
    assertNotEquals(0, server("/header").id());
  }
}
