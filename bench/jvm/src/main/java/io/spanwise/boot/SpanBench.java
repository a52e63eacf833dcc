package io.spanwise.boot;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** What a program's thread pays for a span: client send and receive, two clock reads included. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 4, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(2)
public class SpanBench {
  /** Fewer than a ring holds, so that none is dropped. */
  private static final int SPANS = 512;

  /** Keep 1 success in so many. */
  @Param({"1", "4000"})
  public int oneIn;

  private final Span taken = new Span();

  @Setup(Level.Trial)
  public void start() {
    Trace.oneIn = oneIn;
    Trace.on = true;
    // The thread's ring is made once.
    Trace.end(Trace.send(Span.HTTP_CLIENT, "GET", "/", null), 200, null);
  }

  /** Takes the kept spans out, as the sender does, outside of what is timed. */
  @Setup(Level.Invocation)
  public void drain() {
    for (Ring ring : Rings.all()) {
      while (ring.take(taken)) {}
    }
  }

  /** A figure of dropped spans would be a lie. */
  @TearDown(Level.Trial)
  public void noneWasDropped() {
    for (Ring ring : Rings.all()) {
      if (ring.takeDropped() != 0) {
        throw new IllegalStateException("spans were dropped");
      }
    }
  }

  @Benchmark
  @OperationsPerInvocation(SPANS)
  public void span() {
    for (int count = 0; count < SPANS; count++) {
      Span span = Trace.send(Span.HTTP_CLIENT, "GET", "/cart", "127.0.0.1:8080");
      Trace.end(span, 200, null);
    }
  }
}
