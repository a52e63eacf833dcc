package bench.jmh;

import bench.tracing.Settings;
import bench.tracing.Tracing;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** One of the talk's six. Its subclass says what is built before, done once, and torn down after. */
@State(Scope.Benchmark)
public abstract class Scenario {
    /** A column of the results. The agents among them are given to the JVM by {@code overhead.py}. */
    @Param("none")
    public String tracer;

    private static final int OPERATIONS_BETWEEN_LOOKS = 100;

    /** Operations of warm-ups, whose spans are taken in, too. */
    static long warmed;

    Tracing tracing;
    /** Keeps the warm-up's work from being dead code. */
    Object kept;

    @Setup(Level.Trial)
    public void start() throws Exception {
        tracing = Tracing.named(tracer);
        build();
        warm();
    }

    /**
     * Works until the process has used some seconds of processor time. JMH's own warm-up lasts for a time on the clock,
     * in which a busy host may not let the compiler come to its end.
     */
    private void warm() throws Exception {
        var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long end = system.getProcessCpuTime() + (long) (Double.parseDouble(Settings.required("bench.warm")) * 1e9);
        while (system.getProcessCpuTime() < end) {
            for (int done = 0; done < OPERATIONS_BETWEEN_LOOKS; done++) {
                kept = work();
            }
            warmed += OPERATIONS_BETWEEN_LOOKS;
        }
    }

    @TearDown(Level.Trial)
    public void stop() throws Exception {
        tearDown();
        tracing.close();
    }

    abstract void build() throws Exception;

    abstract void tearDown() throws Exception;

    /** The work itself. */
    abstract Object work() throws Exception;

    /** What JMH measures. It returns a value, so that none of it is dead code. */
    @Benchmark
    public Object once() throws Exception {
        return work();
    }
}
