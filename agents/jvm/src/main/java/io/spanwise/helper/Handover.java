package io.spanwise.helper;

import io.spanwise.boot.Jobs;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Called by the rewritten classes. If anything fails here, the program gets its original object.
 */
public final class Handover {
  /**
   * The continuations of virtual threads are passed between carriers, and are no work of their
   * own.
   */
  private static final String CONTINUATION = "java.lang.VirtualThread";
  /** The work of a pool's thread is determined by the tasks that it takes, not by its creator. */
  private static final String WORKER = "java.util.concurrent.ThreadPoolExecutor$Worker";

  private static final String[] LOOPS = {
    "java.", "javax.", "jdk.", "sun.", "com.sun.", "io.netty.", "reactor.", "io.vertx.", "okhttp3.",
    "okio.", "org.apache.", "org.eclipse.jetty.", "org.xnio.", "io.undertow.", "io.grpc.",
    "io.lettuce.", "com.zaxxer.", "org.springframework.", "com.mysql.", "org.postgresql.", "org.h2.",
    "com.rabbitmq.", "io.micrometer.", "io.spanwise.boot.", "redis.clients.", "ch.qos.logback.",
    "org.hibernate.", "com.netflix.", "com.github.benmanes.",
  };

  private Handover() {}

  private static boolean isWrapped(Object task) {
    return task == null || task instanceof Handed || task instanceof Handed.Periodic;
  }

  public static Runnable wrap(Runnable task) {
    if (isWrapped(task)) {
      return task;
    }
    try {
      if (task.getClass().getName().startsWith(CONTINUATION)) {
        return task;
      }
      return new Handed.OfRunnable(ThreadState.mine().hand(0), task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return task;
    }
  }

  /**
   * Wraps a task for a pool. Functions that are already wrapped, and tasks that the pool may have
   * to compare in its queue, stay unchanged.
   */
  public static Runnable wrapQueued(Runnable task) {
    if (task instanceof FutureTask
        || task instanceof CompletableFuture.AsynchronousCompletionTask
        || task instanceof Comparable) {
      return task;
    }
    return wrap(task);
  }

  /** Wraps the function of a platform thread. */
  public static Runnable wrapStarted(Runnable task) {
    if (isWrapped(task)) {
      return task;
    }
    try {
      if (task.getClass().getName().equals(WORKER)) {
        return task;
      }
      Work work = ThreadState.mine().hand(Work.STARTED);
      return new Handed.OfRunnable(isLoop(task) ? work.withoutContext() : work, task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return task;
    }
  }

  /** Whether a thread's function belongs to a library, whose threads serve whoever comes. */
  private static boolean isLoop(Runnable task) {
    String name = task.getClass().getName();
    for (String prefix : LOOPS) {
      if (name.startsWith(prefix)) {
        return true;
      }
    }
    return false;
  }

  /** Wraps the function of a virtual thread. */
  public static Runnable wrapVirtual(Runnable task) {
    try {
      return task == null ? null : new Handed.OfThread(ThreadState.mine().hand(0), task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return task;
    }
  }

  public static Runnable wrapPeriodic(Runnable task) {
    return isWrapped(task) ? task : new Handed.Periodic(task);
  }

  public static <T> Callable<T> wrap(Callable<T> task) {
    try {
      return isWrapped(task) ? task : new Handed.OfCallable<>(ThreadState.mine().hand(0), task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return task;
    }
  }

  public static <T> Supplier<T> wrap(Supplier<T> task) {
    try {
      return isWrapped(task) ? task : new Handed.OfSupplier<>(ThreadState.mine().hand(0), task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return task;
    }
  }

  public static <A, T> Function<A, T> wrap(Function<A, T> task) {
    try {
      return isWrapped(task) ? task : new Handed.OfFunction<>(ThreadState.mine().hand(0), task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return task;
    }
  }

  public static <A, B, T> BiFunction<A, B, T> wrap(BiFunction<A, B, T> task) {
    try {
      return isWrapped(task) ? task : new Handed.OfBiFunction<>(ThreadState.mine().hand(0), task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return task;
    }
  }

  public static <A> Consumer<A> wrap(Consumer<A> task) {
    try {
      return isWrapped(task) ? task : new Handed.OfConsumer<>(ThreadState.mine().hand(0), task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return task;
    }
  }

  public static <A, B> BiConsumer<A, B> wrap(BiConsumer<A, B> task) {
    try {
      return isWrapped(task) ? task : new Handed.OfBiConsumer<>(ThreadState.mine().hand(0), task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return task;
    }
  }

  /** The program's original function. */
  public static Runnable unwrap(Runnable task) {
    return task instanceof Handed.OfRunnable ? ((Handed.OfRunnable) task).task : task;
  }

  public static List<Runnable> unwrap(List<Runnable> tasks) {
    List<Runnable> found = new ArrayList<>(tasks.size());
    tasks.forEach(task -> found.add(unwrap(task)));
    return found;
  }

  /** A task in the form in which it is stored in a pool's queue. */
  public static Runnable queued(Object pool, Runnable task) {
    if (!(pool instanceof ThreadPoolExecutor)) {
      return task;
    }
    for (Runnable each : ((ThreadPoolExecutor) pool).getQueue()) {
      if (each instanceof Handed.OfRunnable && ((Handed.OfRunnable) each).task.equals(task)) {
        return each;
      }
    }
    return task;
  }

  /** A task is forked or submitted to a fork-join pool. */
  public static void fork(ForkJoinTask<?> task) {
    try {
      if (task != null && !(task instanceof CompletableFuture.AsynchronousCompletionTask)) {
        Forked.put(task, ThreadState.mine().hand(0));
      }
    } catch (Throwable failure) {
      Helper.failed(failure);
    }
  }

  /** A fork-join task starts. */
  public static void begins(ForkJoinTask<?> task) {
    try {
      Work work = Forked.take(task);
      if (work != null) {
        ThreadState.mine().begins(task, work);
      }
    } catch (Throwable failure) {
      Helper.failed(failure);
    }
  }

  /** A fork-join task has ended. */
  public static void ends(ForkJoinTask<?> task) {
    try {
      if (Forked.isUsed()) {
        ThreadState.mine().ends(task);
      }
    } catch (Throwable failure) {
      Helper.failed(failure);
    }
  }

  static Work begin() {
    try {
      ThreadState state = ThreadState.mine();
      return state.enter(state.begin());
    } catch (Throwable failure) {
      Helper.failed(failure);
      return null;
    }
  }

  /** A periodic task begins. What libraries do periodically is no work of the program. */
  static Span beginJob(Runnable task) {
    try {
      return isLoop(task) ? null : Jobs.begin(task);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return null;
    }
  }

  static void endJob(Span span, Throwable thrown) {
    try {
      Trace.end(span, thrown);
    } catch (Throwable failure) {
      Helper.failed(failure);
    }
  }

  /** The current thread ends. */
  public static void threadEnds() {
    try {
      ThreadState.end();
    } catch (Throwable failure) {
      Helper.failed(failure);
    }
  }
}
