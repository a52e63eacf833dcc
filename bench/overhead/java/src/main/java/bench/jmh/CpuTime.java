package bench.jmh;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.profile.InternalProfiler;
import org.openjdk.jmh.results.AggregationPolicy;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.ScalarResult;

/**
 * Processor time of the whole process for each operation: with the threads that send spans, the collector of garbage
 * and the compiler, which the clock of one thread does not see; and without what other programs take on a busy host.
 */
public final class CpuTime implements InternalProfiler {
    private final OperatingSystemMXBean system =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    /** For the file that counts operations, warm-up included: spans taken in are compared with it. */
    private static final String OPERATIONS = System.getProperty("bench.operations");

    private long before;
    private long operations;

    @Override
    public String getDescription() {
        return "Processor time of the process for each operation";
    }

    @Override
    public void beforeIteration(BenchmarkParams benchmark, IterationParams iteration) {
        before = system.getProcessCpuTime();
    }

    @Override
    public Collection<? extends Result<?>> afterIteration(
            BenchmarkParams benchmark, IterationParams iteration, IterationResult result) {
        double used = system.getProcessCpuTime() - before;
        long done = result.getMetadata().getAllOps();
        operations += done;
        if (OPERATIONS != null) {
            try {
                Files.writeString(Path.of(OPERATIONS), Long.toString(Scenario.warmed + operations));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        return List.of(new ScalarResult("cpu", done == 0 ? Double.NaN : used / done, "ns/op", AggregationPolicy.AVG));
    }
}
