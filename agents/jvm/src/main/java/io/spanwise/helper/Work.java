package io.spanwise.helper;

import io.spanwise.boot.Context;
import io.spanwise.boot.Trace;

/** A work item: by which other work item and when it was handed over. The origins form a chain. */
final class Work {
  /** Flag of an id: the thread's own work, which nobody handed over. */
  static final long OWN = 1L << 61;
  /** Flag of an id: the thread was started for it, but may later work for others. */
  static final long STARTED = 1L << 60;

  /** Maximum length of a chain of origins, because chains could grow as long as the program runs. */
  private static final int LONGEST = 28;
  private static final int CUT_TO = 14;

  /** The origin of background work. */
  static final Work NOBODY = own(0);

  final long number;
  final long nano;
  final Work origin;
  /** The span in whose course it was handed over; null if there is none. */
  final Context context;
  private final int depth;

  private Work(long number, long nano, Work origin, int depth, Context context) {
    this.number = number;
    this.nano = nano;
    this.origin = origin;
    this.depth = depth;
    this.context = context;
  }

  /** A work item of the thread itself. */
  static Work own(long number) {
    return new Work(number | OWN, 0, null, 0, null);
  }

  /** A work item that is handed over now, in the course of {@code origin}. */
  static Work handed(long number, Work origin) {
    Work from = origin.depth < LONGEST ? origin : origin.cut(CUT_TO);
    Context context = origin == NOBODY ? null : Trace.capture();
    return new Work(number, System.nanoTime(), from, from.depth + 1, context);
  }

  /** The same without the span, for a thread that is likely to work for others later. */
  Work withoutContext() {
    return context == null ? this : new Work(number, nano, origin, depth, null);
  }

  private Work cut(int hops) {
    Work from = hops == 0 || origin == null ? null : origin.cut(hops - 1);
    return new Work(number, nano, from, from == null ? 0 : from.depth + 1, null);
  }
}
