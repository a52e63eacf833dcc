package io.spanwise.helper;

import io.spanwise.boot.Shown;
import io.spanwise.boot.Trace;
import java.io.FileInputStream;
import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.atomic.AtomicLong;

/** The state of the current thread. */
final class ThreadState {
  /** Flag of a key: it is a virtual thread's id. */
  private static final long LOGICAL = 1L << 63;
  /** Number of work item ids that a thread reserves at a time. */
  private static final int NUMBERS = 256;
  /**
   * Above all ids of an earlier process with the same process id, since no process hands over
   * every nanosecond.
   */
  private static final AtomicLong NEXT = new AtomicLong(System.nanoTime() & (1L << 55) - 1);
  private static final ThreadLocal<ThreadState> MINE = new ThreadLocal<>();
  private static final MethodHandle IS_VIRTUAL = isVirtualHandle();
  /** From this version on, the kernel side distinguishes virtual threads. */
  private static final int VIRTUAL_FROM = 24;
  private static final boolean FOLLOWS_VIRTUAL = Runtime.version().feature() >= VIRTUAL_FROM;

  /** The current work item; null if the thread works on none. */
  private Work now;
  private Work own;
  private final int slot;
  private long next;
  private long end;
  /** Running fork-join tasks, innermost first. */
  private Running running;

  private ThreadState(int slot) {
    this.slot = slot;
  }

  private static MethodHandle isVirtualHandle() {
    try {
      var type = MethodType.methodType(boolean.class);
      return MethodHandles.publicLookup().findVirtual(Thread.class, "isVirtual", type);
    } catch (ReflectiveOperationException older) {
      return null;
    }
  }

  private static boolean isVirtual(Thread thread) throws Throwable {
    return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(thread);
  }

  static ThreadState mine() {
    ThreadState state = MINE.get();
    if (state == null) {
      state = new ThreadState(slotOf(Thread.currentThread()));
      MINE.set(state);
    }
    return state;
  }

  private static int slotOf(Thread thread) {
    try {
      long key;
      if (!isVirtual(thread)) {
        key = systemNumber();
      } else if (FOLLOWS_VIRTUAL) {
        key = number(thread) | LOGICAL;
      } else {
        return -1;
      }
      int slot = Helper.table().take(key);
      if (slot < 0) {
        Helper.say("some threads are not followed, as there are too many");
      }
      return slot;
    } catch (Throwable failure) {
      Helper.failed(failure);
      return -1;
    }
  }

  @SuppressWarnings("deprecation") // The replacement exists only from version 19 on.
  private static long number(Thread thread) {
    return thread.getId();
  }

  /** The thread's id in its own namespace, which is the last one that the system reports. */
  private static long systemNumber() throws IOException {
    byte[] bytes;
    try (FileInputStream status = new FileInputStream("/proc/thread-self/status")) {
      bytes = status.readNBytes(4096);
    }
    String text = new String(bytes, StandardCharsets.ISO_8859_1);
    int line = text.indexOf("\nNSpid:");
    if (line < 0) {
      throw new IOException("/proc/thread-self/status has no NSpid");
    }
    int stop = text.indexOf('\n', line + 1);
    String last = text.substring(line, stop < 0 ? text.length() : stop);
    return Long.parseLong(last.substring(last.lastIndexOf('\t') + 1).trim());
  }

  long number() {
    if (next == end) {
      next = NEXT.getAndAdd(NUMBERS);
      end = next + NUMBERS;
    }
    return next++;
  }

  /** Creates a work item that this thread hands over now. */
  Work hand(long kind) {
    Work from = now;
    if (from == null) {
      if (own == null) {
        own = Work.own(number());
        show();
      }
      from = own;
    }
    return Work.handed(number() | kind, from);
  }

  /** Creates a work item for background work that this thread starts now. */
  Work begin() {
    return Work.handed(number(), Work.NOBODY);
  }

  /** Sets the current work item. Returns the previous one. */
  Work enter(Work work) {
    Work before = now;
    now = work;
    Trace.work(work == null ? null : work.context);
    show();
    return before;
  }

  /** Returns to the work item that {@link #enter} returned. */
  void leave(Work before) {
    now = before;
    Trace.endWork();
    show();
  }

  private void show() {
    if (slot >= 0) {
      Helper.table().write(slot, now == null ? own : now);
    }
  }

  /** The place in which this thread shows its span; null if it has no slot. */
  Shown shown() {
    return slot < 0 ? null : new Place(slot);
  }

  private static final class Place extends Shown {
    private final int slot;

    private Place(int slot) {
      this.slot = slot;
    }

    @Override
    protected void show(long span) {
      Helper.table().writeSpan(slot, span);
    }
  }

  /** A fork-join task starts. */
  void begins(ForkJoinTask<?> task, Work work) {
    running = new Running(task, enter(work), running);
  }

  /** A fork-join task has ended. */
  void ends(ForkJoinTask<?> task) {
    if (running != null && running.task == task) {
      leave(running.before);
      running = running.outer;
    }
  }

  /** The thread ends. Its id may be reused soon. */
  static void end() {
    ThreadState state = MINE.get();
    if (state != null && state.slot >= 0) {
      MINE.remove();
      Helper.table().give(state.slot);
    }
  }

  private static final class Running {
    private final ForkJoinTask<?> task;
    private final Work before;
    private final Running outer;

    private Running(ForkJoinTask<?> task, Work before, Running outer) {
      this.task = task;
      this.before = before;
      this.outer = outer;
    }
  }
}
