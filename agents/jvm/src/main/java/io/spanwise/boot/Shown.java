package io.spanwise.boot;

import java.util.function.Supplier;

/** Where a thread shows the kernel side in which span it works. */
public abstract class Shown {
  /** The current thread's place; null before there is a table. */
  private static volatile Supplier<Shown> places;

  /** From now on, threads that are new to the agent have a place. */
  public static void in(Supplier<Shown> places) {
    Shown.places = places;
  }

  /** The current thread's place; null if it has none. */
  static Shown mine() {
    Supplier<Shown> places = Shown.places;
    return places == null ? null : places.get();
  }

  /** Shows the id of a span; 0 for none. */
  protected abstract void show(long span);
}
