package io.spanwise.helper;

import java.lang.ref.WeakReference;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * The work item of each fork-join task between its fork and its start. A task can neither be
 * changed nor wrapped, so it is identified by its object. A task that never starts is
 * garbage-collected.
 */
final class Forked {
  private static final int BUCKETS = 4096;
  private static final AtomicReferenceArray<Entry> TABLE = new AtomicReferenceArray<>(BUCKETS);
  private static final Object[] LOCKS = new Object[64];
  private static volatile boolean used;

  static {
    for (int index = 0; index < LOCKS.length; index++) {
      LOCKS[index] = new Object();
    }
  }

  private Forked() {}

  static boolean isUsed() {
    return used;
  }

  private static int bucket(ForkJoinTask<?> task) {
    int hash = System.identityHashCode(task);
    return (hash ^ hash >>> 16) & (BUCKETS - 1);
  }

  static void put(ForkJoinTask<?> task, Work work) {
    if (!used) {
      used = true;
    }
    int bucket = bucket(task);
    synchronized (LOCKS[bucket % LOCKS.length]) {
      TABLE.set(bucket, new Entry(task, work, without(TABLE.get(bucket), task)));
    }
  }

  static Work take(ForkJoinTask<?> task) {
    int bucket;
    if (!used || TABLE.get(bucket = bucket(task)) == null) {
      return null;
    }
    synchronized (LOCKS[bucket % LOCKS.length]) {
      Entry first = TABLE.get(bucket);
      for (Entry entry = first; entry != null; entry = entry.next) {
        if (entry.refersToTask(task)) {
          TABLE.set(bucket, without(first, task));
          return entry.work;
        }
      }
    }
    return null;
  }

  /** The chain without collected entries and without this task. The order of the others is kept. */
  private static Entry without(Entry first, ForkJoinTask<?> task) {
    Entry kept = first;
    while (kept != null && (kept.refersToTask(null) || kept.refersToTask(task))) {
      kept = kept.next;
    }
    for (Entry entry = kept; entry != null && entry.next != null; ) {
      if (entry.next.refersToTask(null) || entry.next.refersToTask(task)) {
        entry.next = entry.next.next;
      } else {
        entry = entry.next;
      }
    }
    return kept;
  }

  private static final class Entry extends WeakReference<ForkJoinTask<?>> {
    private final Work work;
    private Entry next;

    private Entry(ForkJoinTask<?> task, Work work, Entry next) {
      super(task);
      this.work = work;
      this.next = next;
    }

    private boolean refersToTask(ForkJoinTask<?> task) {
      return get() == task;
    }
  }
}
