package io.spanwise.boot;

import java.lang.reflect.Method;

/** Runs of what a program has scheduled. Each begins a trace. */
public final class Jobs {
  private static final ClassValue<String[]> TASKS = new ClassValue<String[]>() {
    @Override
    protected String[] computeValue(Class<?> type) {
      return names(type, "run");
    }
  };
  private static final ClassValue<String[]> OF_QUARTZ = new ClassValue<String[]>() {
    @Override
    protected String[] computeValue(Class<?> type) {
      return names(type, "execute");
    }
  };
  /** Of Spring's tasks. */
  private static final Attached<String[]> METHODS = new Attached<>();

  private Jobs() {}

  /** A class's name as it is in each run of the program. */
  private static String[] names(Class<?> type, String method) {
    String name = type.getName();
    int lambda = name.indexOf("$$Lambda");
    if (lambda >= 0) {
      // What follows is another number in each run.
      name = name.substring(0, lambda) + "$lambda";
    } else {
      int proxy = name.indexOf("$$");
      name = proxy > 0 ? name.substring(0, proxy) : name;
    }
    String target = name + "." + method;
    int simple = name.lastIndexOf('.') + 1;
    return new String[] {target.substring(simple), target};
  }

  private static Span begin(String[] names) {
    return Trace.receive(Span.INTERNAL, names[0], names[1], null);
  }

  /** Begins a run of a task, on behalf of nobody. */
  public static Span begin(Runnable task) {
    return Hooks.jobs ? begin(TASKS.get(task.getClass())) : null;
  }

  /** Begins a run of a job of Quartz. */
  public static Span begin(Class<?> job) {
    return Hooks.jobs ? begin(OF_QUARTZ.get(job)) : null;
  }

  /** Somebody objects to the run that this thread has begun. */
  public static void doesNotRun() {
    Span span = running();
    if (span != null) {
      Lane.mine().pop(span);
    }
  }

  /**
   * The run of this thread has failed. Quartz hands the cause on in exceptions of its own, one in
   * another.
   */
  public static void failed(Throwable thrown) {
    Span span = running();
    if (span != null) {
      Throwable cause = thrown;
      while (cause.getCause() != null && cause.getClass().getName().startsWith("org.quartz.")) {
        cause = cause.getCause();
      }
      Messages.fail(span, cause.getClass().getName());
    }
  }

  private static Span running() {
    return Trace.on && Hooks.jobs ? Lane.mine().innermost(Span.INTERNAL) : null;
  }

  /** Begins a run of a method that a framework calls. */
  public static Span begin(Object task, Object of, Method method) {
    if (!Hooks.jobs || method == null) {
      return null;
    }
    String[] names = METHODS.get(task);
    if (names == null) {
      names = names(of == null ? method.getDeclaringClass() : of.getClass(), method.getName());
      METHODS.set(task, names);
    }
    return begin(names);
  }
}
