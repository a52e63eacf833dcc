package bench.jmh;

import bench.tracing.Tracing;
import jakarta.servlet.Filter;
import jakarta.servlet.Servlet;
import java.io.File;
import java.nio.file.Files;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;

/** A Tomcat with one servlet, and before it the filter of a tracer that has one. */
final class Container implements AutoCloseable {
    // java.util.logging forgets loggers that nobody holds.
    private static final Logger LOG = Logger.getLogger("org.apache");

    private final Tomcat tomcat = new Tomcat();
    final int port;

    Container(Servlet servlet, Tracing tracing) throws Exception {
        LOG.setLevel(Level.WARNING);
        File directory = Files.createTempDirectory("overhead").toFile();
        directory.deleteOnExit();
        tomcat.setBaseDir(directory.getPath());
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        // A connection is kept for as long as it is used.
        tomcat.getConnector().setProperty("maxKeepAliveRequests", "-1");
        Context context = tomcat.addContext("", directory.getPath());
        Tomcat.addServlet(context, "bench", servlet).setLoadOnStartup(1);
        context.addServletMappingDecoded("/*", "bench");
        Filter filter = tracing.filter();
        if (filter != null) {
            FilterDef definition = new FilterDef();
            definition.setFilterName("tracing");
            definition.setFilter(filter);
            definition.setAsyncSupported("true");
            context.addFilterDef(definition);
            FilterMap map = new FilterMap();
            map.setFilterName("tracing");
            map.addURLPattern("/*");
            context.addFilterMap(map);
        }
        tomcat.start();
        port = tomcat.getConnector().getLocalPort();
    }

    @Override
    public void close() throws Exception {
        tomcat.stop();
        tomcat.destroy();
    }
}
