package bench.jmh;

import jakarta.ws.rs.GET;
import jakarta.ws.rs.Path;
import jakarta.ws.rs.PathParam;
import jakarta.ws.rs.Produces;
import org.glassfish.jersey.server.ResourceConfig;
import org.glassfish.jersey.servlet.ServletContainer;

/** A resource of Jersey in a Tomcat, called through HTTP. */
public class JaxRs extends Scenario {
    private Container container;
    private Wire wire;

    @Override
    void build() throws Exception {
        container = new Container(new ServletContainer(new ResourceConfig(Courses.class)), tracing);
        wire = new Wire(container.port, "/courses/7");
    }

    @Override
    void tearDown() throws Exception {
        wire.close();
        container.close();
    }

    @Override
    Object work() throws Exception {
        return wire.get();
    }

    /** Public, because Jersey makes it. */
    @Path("/courses")
    public static class Courses {
        @GET
        @Path("/{id}")
        @Produces("text/plain")
        public String course(@PathParam("id") int id) {
            return "course " + id;
        }
    }
}
