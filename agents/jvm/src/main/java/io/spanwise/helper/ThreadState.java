package io.spanwise.helper;

import java.io.FileInputStream;
import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.atomic.AtomicLong;

/** What is known of the thread that runs. */
final class ThreadState {
  /** Of a key: it is a virtual thread's number. */
  private static final long LOGICAL = 1L << 63;
  /** Numbers that a thread takes at a time. */
  private static final int NUMBERS = 256;
  /** From where no earlier process of this number can have come: nobody hands over every nanosecond. */
  private static final AtomicLong NEXT = new AtomicLong(System.nanoTime() & (1L << 55) - 1);
  private static final ThreadLocal<ThreadState> MINE = new ThreadLocal<>();
  private static final MethodHandle IS_VIRTUAL = isVirtualHandle();
  /** From this version on the kernel side tells virtual threads apart. */
  private static final int VIRTUAL_FROM = 24;
  private static final boolean FOLLOWS_VIRTUAL = Runtime.version().feature() >= VIRTUAL_FROM;

  /** What it works on; null: on nothing that was handed over. */
  private Work now;
  private Work own;
  private final int slot;
  private long next;
  private long end;
  /** Tasks of a fork-join pool that run, the innermost first. */
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

  @SuppressWarnings("deprecation") // Its new name is there from 19 on.
  private static long number(Thread thread) {
    return thread.getId();
  }

  /** The thread's number in its own namespace: the last of those that the system tells. */
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

  /** What this thread hands over now. */
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

  /** What this thread begins now for nobody. */
  Work begin() {
    return Work.handed(number(), Work.NOBODY);
  }

  /** Works on this from now on; gives back what it has worked on. */
  Work enter(Work work) {
    Work before = now;
    now = work;
    show();
    return before;
  }

  private void show() {
    if (slot >= 0) {
      Helper.table().write(slot, now == null ? own : now);
    }
  }

  /** A task of a fork-join pool begins. */
  void begins(ForkJoinTask<?> task, Work work) {
    running = new Running(task, enter(work), running);
  }

  /** A task of a fork-join pool has ended. */
  void ends(ForkJoinTask<?> task) {
    if (running != null && running.task == task) {
      enter(running.before);
      running = running.outer;
    }
  }

  /** The thread ends: another may have its number soon. */
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
