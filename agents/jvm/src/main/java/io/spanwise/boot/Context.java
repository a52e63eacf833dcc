package io.spanwise.boot;

/** The ids that work takes with it to another thread. */
public final class Context {
  final long traceHigh;
  final long traceLow;
  final long span;
  final boolean sampled;

  Context(Span from) {
    traceHigh = from.traceHigh;
    traceLow = from.traceLow;
    span = from.id;
    sampled = from.sampled;
  }
}
