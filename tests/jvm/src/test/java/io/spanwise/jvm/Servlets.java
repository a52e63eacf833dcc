package io.spanwise.jvm;

import java.util.Map;
import org.apache.catalina.startup.Tomcat;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** A container for a servlet of either generation: Tomcat for javax, Jetty for jakarta. */
final class Servlets implements AutoCloseable {
  private final AutoCloseable server;
  final String at;

  /**
   * @param context the path of the application, such as {@code /shop}
   * @param mapping what the servlet serves, such as {@code /api/*}
   */
  Servlets(Object servlet, String context, String mapping, Map<String, String> parameters) throws Exception {
    if (servlet instanceof javax.servlet.Servlet) {
      Tomcat tomcat = new Tomcat();
      tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
      tomcat.setPort(0);
      var application = tomcat.addContext(context, null);
      var wrapper = Tomcat.addServlet(application, "tested", (javax.servlet.Servlet) servlet);
      wrapper.setAsyncSupported(true);
      parameters.forEach(wrapper::addInitParameter);
      parameters.forEach(application::addParameter);
      application.addServletMappingDecoded(mapping, "tested");
      tomcat.start();
      server = () -> {
        tomcat.stop();
        tomcat.destroy();
      };
      at = "http://127.0.0.1:" + tomcat.getConnector().getLocalPort();
    } else {
      Server jetty = new Server();
      ServerConnector connector = new ServerConnector(jetty);
      jetty.addConnector(connector);
      ServletContextHandler handler = new ServletContextHandler(context.isEmpty() ? "/" : context);
      ServletHolder holder = new ServletHolder((jakarta.servlet.Servlet) servlet);
      parameters.forEach(holder::setInitParameter);
      parameters.forEach(handler::setInitParameter);
      handler.addServlet(holder, mapping);
      jetty.setHandler(handler);
      jetty.start();
      server = jetty::stop;
      at = "http://127.0.0.1:" + connector.getLocalPort();
    }
  }

  @Override
  public void close() throws Exception {
    server.close();
  }
}
