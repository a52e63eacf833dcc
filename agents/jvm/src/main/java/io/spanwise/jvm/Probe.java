package io.spanwise.jvm;

/** Woven like a library at start, to see whether weaving works in this virtual machine. */
final class Probe {
  private Probe() {}

  static boolean isWoven() {
    return false;
  }
}
