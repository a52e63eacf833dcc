package io.spanwise.boot;

import java.lang.ref.WeakReference;
import java.util.concurrent.atomic.AtomicLongFieldUpdater;

/**
 * Finished spans of one thread, in fixed slots. The thread writes and the sender reads, without a
 * lock. A full ring drops the span and counts it.
 */
final class Ring {
  static final int SLOTS = 1024;
  static final int WORDS = 7;
  static final int TEXTS = 4;
  private static final int MASK = SLOTS - 1;
  private static final AtomicLongFieldUpdater<Ring> HEAD =
      AtomicLongFieldUpdater.newUpdater(Ring.class, "head");
  private static final AtomicLongFieldUpdater<Ring> TAIL =
      AtomicLongFieldUpdater.newUpdater(Ring.class, "tail");

  final long[] words = new long[SLOTS * WORDS];
  final String[] texts = new String[SLOTS * TEXTS];
  /** Its thread; null if several threads share it. */
  volatile WeakReference<Thread> owner;
  private volatile long head;
  private volatile long tail;
  /** The writer's last view of the tail. */
  private long tailSeen;
  private volatile long dropped;
  private long droppedTold;

  Ring(Thread owner) {
    this.owner = owner == null ? null : new WeakReference<>(owner);
  }

  /** Whether there was room. */
  boolean put(Span span) {
    long at = head;
    if (at - tailSeen >= SLOTS) {
      tailSeen = tail;
      if (at - tailSeen >= SLOTS) {
        drop();
        return false;
      }
    }
    write(span, words, texts, (int) at & MASK);
    HEAD.lazySet(this, at + 1);
    return true;
  }

  /** Several threads share this ring. */
  synchronized boolean putShared(Span span) {
    return put(span);
  }

  @SuppressWarnings("NonAtomicOperationOnVolatileField") // Only one thread writes at a time.
  private void drop() {
    dropped = dropped + 1;
  }

  boolean isHalfFull() {
    return head - tailSeen == SLOTS / 2;
  }

  static void write(Span span, long[] words, String[] texts, int slot) {
    int at = slot * WORDS;
    words[at] = span.traceHigh;
    words[at + 1] = span.traceLow;
    words[at + 2] = span.id;
    words[at + 3] = span.parent;
    words[at + 4] = span.startNano;
    words[at + 5] = span.endNano;
    words[at + 6] = (long) span.clientPort << 48
        | (span.status & 0xffffffffL) << 16
        | (span.failed ? 256 : 0)
        | span.component;
    int text = slot * TEXTS;
    texts[text] = span.name;
    texts[text + 1] = span.target;
    texts[text + 2] = span.peer;
    texts[text + 3] = span.error;
  }

  static void read(Span span, long[] words, String[] texts, int slot) {
    int at = slot * WORDS;
    span.traceHigh = words[at];
    span.traceLow = words[at + 1];
    span.id = words[at + 2];
    span.parent = words[at + 3];
    span.startNano = words[at + 4];
    span.endNano = words[at + 5];
    span.clientPort = (int) (words[at + 6] >>> 48);
    span.status = (int) (words[at + 6] >>> 16);
    span.failed = (words[at + 6] & 256) != 0;
    span.component = (int) words[at + 6] & 255;
    int text = slot * TEXTS;
    span.name = texts[text];
    span.target = texts[text + 1];
    span.peer = texts[text + 2];
    span.error = texts[text + 3];
  }

  boolean isEmpty() {
    return head == tail;
  }

  /** Takes the oldest span out. Only the sender does so. */
  boolean take(Span into) {
    long at = tail;
    if (at == head) {
      return false;
    }
    int slot = (int) at & MASK;
    read(into, words, texts, slot);
    // Nothing of the program is kept alive.
    for (int text = slot * TEXTS; text < (slot + 1) * TEXTS; text++) {
      texts[text] = null;
    }
    TAIL.lazySet(this, at + 1);
    return true;
  }

  /** Dropped spans that were not told yet. */
  long takeDropped() {
    long now = dropped;
    long fresh = now - droppedTold;
    droppedTold = now;
    return fresh;
  }
}
