package io.spanwise.boot;

/**
 * Work on behalf of a context that is not the thread's own. What {@link #enter} returns is 0 if
 * there is nothing to leave, so that a hook that failed leaves nothing.
 */
public final class Work implements Runnable {
  public static final int NONE = 0;

  private final Context context;
  private final Runnable task;

  private Work(Context context, Runnable task) {
    this.context = context;
    this.task = task;
  }

  public static int enter(Context context) {
    return Trace.enter(context) + 1;
  }

  public static void leave(int entered) {
    Trace.restore(entered - 1);
  }

  /** A task that works on behalf of the current context, if there is one. */
  public static Runnable wrap(Runnable task) {
    if (task == null || task instanceof Work) {
      return task;
    }
    Context context = Trace.capture();
    return context == null ? task : new Work(context, task);
  }

  @Override
  public void run() {
    int entered = enter(context);
    try {
      task.run();
    } finally {
      leave(entered);
    }
  }

  @Override
  public String toString() {
    return task.toString();
  }
}
