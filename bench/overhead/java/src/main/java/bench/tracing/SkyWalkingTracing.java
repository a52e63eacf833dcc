package bench.tracing;

import java.util.concurrent.Callable;
import org.apache.skywalking.apm.toolkit.trace.Trace;

/** SkyWalking's agent, which instruments everything but a program's own spans by itself; these it finds by annotation. */
final class SkyWalkingTracing implements Tracing {
    @Override
    @Trace
    public <T> T span(String name, Callable<T> work) throws Exception {
        return work.call();
    }
}
