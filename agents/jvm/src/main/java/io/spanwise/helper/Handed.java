package io.spanwise.helper;

import io.spanwise.boot.Span;
import java.util.concurrent.Callable;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * A function that was handed over, with its work item. Any thread that calls it works on that item
 * during the call.
 */
abstract class Handed {
  final Work work;

  private Handed(Work work) {
    this.work = work;
  }

  final Work enter() {
    try {
      return ThreadState.mine().enter(work);
    } catch (Throwable failure) {
      Helper.failed(failure);
      return null;
    }
  }

  static void leave(Work before) {
    try {
      ThreadState.mine().leave(before);
    } catch (Throwable failure) {
      Helper.failed(failure);
    }
  }

  static final class OfRunnable extends Handed implements Runnable {
    final Runnable task;

    OfRunnable(Work work, Runnable task) {
      super(work);
      this.task = task;
    }

    @Override
    public void run() {
      Work before = enter();
      try {
        task.run();
      } finally {
        leave(before);
      }
    }

    @Override
    public String toString() {
      return task.toString();
    }
  }

  /** The function of a virtual thread. When it ends, the thread ends. */
  static final class OfThread extends Handed implements Runnable {
    private final Runnable task;

    OfThread(Work work, Runnable task) {
      super(work);
      this.task = task;
    }

    @Override
    public void run() {
      enter();
      try {
        task.run();
      } finally {
        Handover.threadEnds();
      }
    }

    @Override
    public String toString() {
      return task.toString();
    }
  }

  /** A function that runs periodically, each time as background work. */
  static final class Periodic implements Runnable {
    private final Runnable task;

    Periodic(Runnable task) {
      this.task = task;
    }

    @Override
    public void run() {
      Work before = Handover.begin();
      Span span = Handover.beginJob(task);
      Throwable thrown = null;
      try {
        task.run();
      } catch (Throwable failure) {
        thrown = failure;
        throw failure;
      } finally {
        Handover.endJob(span, thrown);
        leave(before);
      }
    }

    @Override
    public String toString() {
      return task.toString();
    }
  }

  static final class OfCallable<T> extends Handed implements Callable<T> {
    private final Callable<T> task;

    OfCallable(Work work, Callable<T> task) {
      super(work);
      this.task = task;
    }

    @Override
    public T call() throws Exception {
      Work before = enter();
      try {
        return task.call();
      } finally {
        leave(before);
      }
    }

    @Override
    public String toString() {
      return task.toString();
    }
  }

  static final class OfSupplier<T> extends Handed implements Supplier<T> {
    private final Supplier<T> task;

    OfSupplier(Work work, Supplier<T> task) {
      super(work);
      this.task = task;
    }

    @Override
    public T get() {
      Work before = enter();
      try {
        return task.get();
      } finally {
        leave(before);
      }
    }
  }

  static final class OfFunction<A, T> extends Handed implements Function<A, T> {
    private final Function<A, T> task;

    OfFunction(Work work, Function<A, T> task) {
      super(work);
      this.task = task;
    }

    @Override
    public T apply(A argument) {
      Work before = enter();
      try {
        return task.apply(argument);
      } finally {
        leave(before);
      }
    }
  }

  static final class OfBiFunction<A, B, T> extends Handed implements BiFunction<A, B, T> {
    private final BiFunction<A, B, T> task;

    OfBiFunction(Work work, BiFunction<A, B, T> task) {
      super(work);
      this.task = task;
    }

    @Override
    public T apply(A first, B second) {
      Work before = enter();
      try {
        return task.apply(first, second);
      } finally {
        leave(before);
      }
    }
  }

  static final class OfConsumer<A> extends Handed implements Consumer<A> {
    private final Consumer<A> task;

    OfConsumer(Work work, Consumer<A> task) {
      super(work);
      this.task = task;
    }

    @Override
    public void accept(A argument) {
      Work before = enter();
      try {
        task.accept(argument);
      } finally {
        leave(before);
      }
    }
  }

  static final class OfBiConsumer<A, B> extends Handed implements BiConsumer<A, B> {
    private final BiConsumer<A, B> task;

    OfBiConsumer(Work work, BiConsumer<A, B> task) {
      super(work);
      this.task = task;
    }

    @Override
    public void accept(A first, B second) {
      Work before = enter();
      try {
        task.accept(first, second);
      } finally {
        leave(before);
      }
    }
  }
}
