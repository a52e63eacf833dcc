package io.spanwise.boot;

import java.lang.ref.WeakReference;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * Facts about objects of libraries, by identity. Objects are held weakly. Looking up allocates
 * nothing.
 */
public final class Attached<V> {
  private static final int BUCKETS = 1 << 12;
  private static final Object[] LOCKS = new Object[64];

  static {
    for (int index = 0; index < LOCKS.length; index++) {
      LOCKS[index] = new Object();
    }
  }

  private final AtomicReferenceArray<Entry<V>> table = new AtomicReferenceArray<>(BUCKETS);

  private static int bucket(Object object) {
    int hash = System.identityHashCode(object);
    return (hash ^ hash >>> 16) & BUCKETS - 1;
  }

  public V get(Object object) {
    for (Entry<V> entry = table.get(bucket(object)); entry != null; entry = entry.next) {
      if (entry.get() == object) {
        return entry.value;
      }
    }
    return null;
  }

  /** Sets the fact; null removes it. */
  public void set(Object object, V value) {
    int bucket = bucket(object);
    synchronized (LOCKS[bucket % LOCKS.length]) {
      Entry<V> kept = value == null ? null : new Entry<>(object, value, null);
      // Entries are not changed, because others read them. Collected ones are left out.
      for (Entry<V> entry = table.get(bucket); entry != null; entry = entry.next) {
        Object other = entry.get();
        if (other != null && other != object) {
          kept = new Entry<>(other, entry.value, kept);
        }
      }
      table.set(bucket, kept);
    }
  }

  /** Forgets everything. */
  void clear() {
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
      synchronized (LOCKS[bucket % LOCKS.length]) {
        table.set(bucket, null);
      }
    }
  }

  private static final class Entry<V> extends WeakReference<Object> {
    private final V value;
    private final Entry<V> next;

    private Entry(Object object, V value, Entry<V> next) {
      super(object);
      this.value = value;
      this.next = next;
    }
  }
}
