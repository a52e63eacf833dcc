package io.spanwise.helper;

/**
 * What a thread works on: by whom and when that was handed over. What it has been handed itself
 * for that, and so on, is the chain of origins.
 */
final class Work {
  /** Of a number: nobody has handed it over, it is what a thread does by itself. */
  static final long OWN = 1L << 61;
  /** Of a number: a thread was started for it, which may live on for others. */
  static final long STARTED = 1L << 60;

  /** Origins that are kept: chains may go on for as long as the program runs. */
  private static final int LONGEST = 28;
  private static final int CUT_TO = 14;

  /** From whom comes what nobody asks for. */
  static final Work NOBODY = own(0);

  final long number;
  final long nano;
  final Work origin;
  private final int depth;

  private Work(long number, long nano, Work origin, int depth) {
    this.number = number;
    this.nano = nano;
    this.origin = origin;
    this.depth = depth;
  }

  /** What a thread does by itself. */
  static Work own(long number) {
    return new Work(number | OWN, 0, null, 0);
  }

  /** What is handed over now, in the course of {@code origin}. */
  static Work handed(long number, Work origin) {
    Work from = origin.depth < LONGEST ? origin : origin.cut(CUT_TO);
    return new Work(number, System.nanoTime(), from, from.depth + 1);
  }

  private Work cut(int hops) {
    Work from = hops == 0 || origin == null ? null : origin.cut(hops - 1);
    return new Work(number, nano, from, from == null ? 0 : from.depth + 1);
  }
}
