package bench.jmh;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** A servlet in a Tomcat, called through HTTP. A library's filter, or an agent, makes the span. */
public class ServletFilter extends Scenario {
    private Container container;
    private Wire wire;

    @Override
    void build() throws Exception {
        container = new Container(new Hello(), tracing);
        wire = new Wire(container.port, "/hello");
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

    private static final class Hello extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.setContentType("text/plain");
            response.getWriter().print("hello");
        }
    }
}
