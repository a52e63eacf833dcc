package io.spanwise.boot;

/** The ids that work takes with it to another thread. */
public final class Context {
  final long traceHigh;
  final long traceLow;
  final long span;
  final boolean sampled;
  final String baggage;
  /** The open request of a server, if no thread has it; null otherwise. */
  final Span server;

  Context(Span from) {
    traceHigh = from.traceHigh;
    traceLow = from.traceLow;
    span = from.id;
    sampled = from.sampled;
    baggage = from.baggage;
    server = from.openServer();
  }
}
