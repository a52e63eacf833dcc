package io.spanwise.boot;

/** A span that is open. A thread's spans are used again and again. */
public final class Span {
  /** What a span stands for. The numbers are those of docs/jvm-format.md. */
  public static final int HTTP_SERVER = 1;
  public static final int HTTP_CLIENT = 2;
  public static final int DATABASE = 3;
  public static final int PRODUCER = 4;
  public static final int CONSUMER = 5;
  public static final int RPC_CLIENT = 6;
  public static final int RPC_SERVER = 7;
  public static final int CACHE = 8;
  public static final int INTERNAL = 9;
  /** No span: a context that was handed over, or none. */
  static final int CONTEXT = 0;

  int component;
  boolean failed;
  /** Kept, although it may be a success that is not sampled. */
  boolean kept;
  /** The caller's sampling flag; false if the caller asked not to sample. */
  boolean sampled;
  int status;
  /** The caller's port, by which the kernel's span of the request is found; 0 if unknown. */
  int clientPort;
  long traceHigh;
  long traceLow;
  long id;
  long parent;
  long startNano;
  long endNano;
  String name;
  String target;
  String peer;
  String error;
  /** What the caller passes on to all that it calls; null if there is none. */
  String baggage;
  /** The open request of a server that this belongs to, if no thread has it. */
  Span server;
  /** A parent that a header of B3 names, until another one names the trace. */
  long b3Parent;
  /** The place on its thread's stack; -1 for a span of no thread. */
  int depth;

  void copyTo(Span other) {
    other.component = component;
    other.kept = kept;
    other.clientPort = clientPort;
    other.sampled = sampled;
    other.traceHigh = traceHigh;
    other.traceLow = traceLow;
    other.id = id;
    other.parent = parent;
    other.startNano = startNano;
    other.name = name;
    other.target = target;
    other.peer = peer;
    other.baggage = baggage;
    other.server = server;
    other.depth = -1;
  }

  /** A message's producer is the parent, and tells what to pass on. */
  void isBelow(Span producer) {
    traceHigh = producer.traceHigh;
    traceLow = producer.traceLow;
    parent = producer.parent;
    sampled = producer.sampled;
    baggage = producer.baggage;
  }

  /** Sets what is known only later, such as the route of a request. */
  public void target(String later) {
    target = later;
  }

  public void clientPort(int port) {
    clientPort = port;
  }

  public void peer(String later) {
    peer = later;
  }

  /** The status that will be told when the span ends. */
  public void status(int later) {
    status = later;
  }

  /** The route of a request that is answered. The first one counts: errors have routes, too. */
  void route(String route) {
    if (component == HTTP_SERVER && peer == null) {
      peer = route;
    }
  }

  Span openServer() {
    return component == HTTP_SERVER && depth < 0 ? this : server;
  }
}
