package io.spanwise.boot;

/** What one thread is doing: its open spans, innermost last, and its ring. */
final class Lane {
  private static final int DEEPEST = 64;
  private static final int RECENT = 32;
  private static final ThreadLocal<Lane> MINE = new ThreadLocal<>();

  private final Span[] spans = new Span[DEEPEST];
  private int depth;
  /** Pieces of work that found the stack full. */
  private int skipped;
  private final Ring ring;
  private final boolean shared;
  /** Null if the kernel side does not look. */
  private final Shown shown;
  private long random;
  /** Successes that were not sampled. A later failure of their trace still keeps them. */
  private long[] recentWords;
  private String[] recentTexts;
  private int recent;

  /** Of the last start of the agent. What is open from before does not count. */
  private int generation = Trace.generation;

  private Lane(Ring ring, boolean shared, long random) {
    this.ring = ring;
    this.shared = shared;
    this.random = random;
    shown = Shown.mine();
  }

  static Lane mine() {
    Lane lane = MINE.get();
    if (lane == null) {
      Thread thread = Thread.currentThread();
      boolean virtual = thread.getClass().getName().contains("Virtual");
      Ring ring = virtual ? null : Rings.own(thread);
      lane = new Lane(ring == null ? Rings.shared() : ring, ring == null, Rings.seed());
      MINE.set(lane);
    }
    if (lane.generation != Trace.generation) {
      lane.generation = Trace.generation;
      lane.depth = 0;
      lane.skipped = 0;
    }
    return lane;
  }

  /** Never 0 (SplitMix64). */
  long nextId() {
    long id;
    do {
      random += 0x9e3779b97f4a7c15L;
      id = random;
      id = (id ^ id >>> 30) * 0xbf58476d1ce4e5b9L;
      id = (id ^ id >>> 27) * 0x94d049bb133111ebL;
      id ^= id >>> 31;
    } while (id == 0);
    return id;
  }

  /** The innermost span or context; null if there is none. */
  Span top() {
    return depth == 0 || depth > DEEPEST ? null : spans[depth - 1];
  }

  /** Tells the kernel side the innermost span. */
  void show() {
    if (shown != null) {
      Span top = top();
      shown.show(top == null ? 0 : top.id);
    }
  }

  /** Whether a span of this kind is open for the current piece of work. */
  boolean isWithin(int component) {
    for (int at = Math.min(depth, DEEPEST) - 1; at >= 0; at--) {
      if (spans[at].component == component) {
        return true;
      }
      if (spans[at].component == Span.CONTEXT) {
        return false;
      }
    }
    return false;
  }

  /** The innermost span of this kind that is open for the current piece of work; null if none is. */
  Span innermost(int component) {
    for (int at = Math.min(depth, DEEPEST) - 1; at >= 0 && spans[at].component != Span.CONTEXT; at--) {
      if (spans[at].component == component) {
        return spans[at];
      }
    }
    return null;
  }

  /** A place on the stack; null if the stack is full. */
  Span push(int component) {
    if (depth >= DEEPEST) {
      Rings.tooDeep();
      return null;
    }
    Span span = spans[depth];
    if (span == null) {
      span = new Span();
      spans[depth] = span;
    }
    span.component = component;
    span.depth = depth;
    span.failed = false;
    span.kept = false;
    span.status = 0;
    span.clientPort = 0;
    span.error = null;
    span.baggage = null;
    span.server = null;
    span.b3Parent = 0;
    depth++;
    return span;
  }

  /** Takes a span from the stack, and whatever was left open above it. */
  boolean pop(Span span) {
    if (span.depth < 0 || span.depth >= depth || spans[span.depth] != span) {
      return false;
    }
    depth = span.depth;
    show();
    return true;
  }

  /** Puts a context on the stack. False if the stack is full. */
  boolean enter(Context context) {
    Span place = push(Span.CONTEXT);
    if (place == null) {
      return false;
    }
    place.traceHigh = context == null ? 0 : context.traceHigh;
    place.traceLow = context == null ? 0 : context.traceLow;
    place.id = context == null ? 0 : context.span;
    place.sampled = context == null || context.sampled;
    show();
    if (context != null) {
      place.baggage = context.baggage;
      place.server = context.server;
    }
    return true;
  }

  void enterWork(Context context) {
    if (skipped > 0 || !enter(context)) {
      skipped++;
    }
  }

  /** Leaves the innermost work, and closes what was left open in it. */
  void leaveWork() {
    if (skipped > 0) {
      skipped--;
      return;
    }
    for (int at = depth - 1; at >= 0; at--) {
      if (spans[at].component == Span.CONTEXT) {
        depth = at;
        show();
        return;
      }
    }
  }

  /** Sets the route of the request that this work belongs to. */
  void route(String route) {
    for (int at = Math.min(depth, DEEPEST) - 1; at >= 0; at--) {
      if (spans[at].component == Span.HTTP_SERVER) {
        spans[at].route(route);
        return;
      }
      if (spans[at].component == Span.CONTEXT) {
        if (spans[at].server != null) {
          spans[at].server.route(route);
        }
        return;
      }
    }
  }

  int depth() {
    return depth;
  }

  /** Closes what was opened since. */
  void cutTo(int to) {
    if (to < depth) {
      depth = to;
      show();
    }
  }

  /** All open spans of a trace are kept, because one within it has failed. */
  void keepOpen(Span failed) {
    for (int at = Math.min(depth, DEEPEST) - 1; at >= 0; at--) {
      if (spans[at].traceLow == failed.traceLow) {
        spans[at].kept = true;
      }
    }
    if (recentWords == null) {
      return;
    }
    Span copy = new Span();
    for (int slot = 0; slot < RECENT; slot++) {
      if (recentTexts[slot * Ring.TEXTS] != null
          && recentWords[slot * Ring.WORDS + 1] == failed.traceLow
          && recentWords[slot * Ring.WORDS] == failed.traceHigh) {
        Ring.read(copy, recentWords, recentTexts, slot);
        recentTexts[slot * Ring.TEXTS] = null;
        keep(copy);
      }
    }
  }

  void keep(Span span) {
    boolean put = shared ? ring.putShared(span) : ring.put(span);
    if (put) {
      Rings.wake(ring);
    }
  }

  /** Remembers a success that is not sampled. */
  void remember(Span span) {
    if (recentWords == null) {
      recentWords = new long[RECENT * Ring.WORDS];
      recentTexts = new String[RECENT * Ring.TEXTS];
    }
    Ring.write(span, recentWords, recentTexts, recent);
    recent = (recent + 1) % RECENT;
  }
}
