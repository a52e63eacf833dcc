package io.spanwise.boot;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/** All rings, and the thread that empties them. */
final class Rings {
  private static final int MOST = 512;
  private static final int SHARED = 8;
  private static final Ring[] SHARED_RINGS = new Ring[SHARED];
  private static final AtomicInteger NEXT_SHARED = new AtomicInteger();
  private static final AtomicLong SEED = new AtomicLong(seedOfProcess());
  private static final AtomicLong TOO_DEEP = new AtomicLong();

  private static final Object LOCK = new Object();
  private static final List<Ring> FREE = new ArrayList<>();
  /** Copied at every change. */
  private static volatile Ring[] all = {};
  private static volatile Thread sender;
  static volatile boolean asleep;

  static {
    Ring[] shared = new Ring[SHARED];
    for (int index = 0; index < SHARED; index++) {
      shared[index] = new Ring(null);
      SHARED_RINGS[index] = shared[index];
    }
    all = shared;
  }

  private Rings() {}

  private static long seedOfProcess() {
    byte[] bytes = new byte[8];
    try (java.io.InputStream random = new java.io.FileInputStream("/dev/urandom")) {
      new java.io.DataInputStream(random).readFully(bytes);
    } catch (java.io.IOException none) {
      return System.nanoTime() ^ System.currentTimeMillis() << 20 ^ new Object().hashCode();
    }
    return java.nio.ByteBuffer.wrap(bytes).getLong();
  }

  static long seed() {
    // Far apart, so that the threads' sequences do not meet.
    return SEED.addAndGet(0x5851f42d4c957f2dL);
  }

  static Ring own(Thread thread) {
    synchronized (LOCK) {
      if (!FREE.isEmpty()) {
        Ring ring = FREE.remove(FREE.size() - 1);
        ring.owner = new java.lang.ref.WeakReference<>(thread);
        return ring;
      }
      if (all.length >= MOST) {
        return null;
      }
      Ring ring = new Ring(thread);
      Ring[] more = java.util.Arrays.copyOf(all, all.length + 1);
      more[all.length] = ring;
      all = more;
      return ring;
    }
  }

  static Ring shared() {
    return SHARED_RINGS[NEXT_SHARED.getAndIncrement() & SHARED - 1];
  }

  static Ring[] all() {
    return all;
  }

  /** Rings of ended threads serve others. */
  static void collectFree() {
    synchronized (LOCK) {
      for (Ring ring : all) {
        java.lang.ref.WeakReference<Thread> owner = ring.owner;
        if (owner == null || !ring.isEmpty()) {
          continue;
        }
        Thread thread = owner.get();
        if ((thread == null || !thread.isAlive()) && !FREE.contains(ring)) {
          FREE.add(ring);
        }
      }
    }
  }

  static void tooDeep() {
    TOO_DEEP.incrementAndGet();
  }

  static long takeTooDeep() {
    return TOO_DEEP.getAndSet(0);
  }

  static void sender(Thread thread) {
    sender = thread;
  }

  static void sendNow() {
    LockSupport.unpark(sender);
  }

  /** The sender sleeps until there is something, and is woken early if a ring fills. */
  static void wake(Ring ring) {
    if (asleep || ring.isHalfFull()) {
      asleep = false;
      LockSupport.unpark(sender);
    }
  }
}
