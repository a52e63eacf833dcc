package io.spanwise.boot;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;

/**
 * Spans of messages, whatever their system. What is known of one message follows its peer as a
 * query: {@code kafka://host:9092?partition=3&offset=17&key=x}.
 */
public final class Messages {
  private static final int LONGEST_KEY = 128;

  private Messages() {}

  /**
   * Begins to work on a message. The producer's span is the parent if the message names it, else
   * whatever this thread does.
   */
  public static Span process(String name, String target, String peer, Map<String, ?> headers) {
    if (!Hooks.messaging) {
      return null;
    }
    Span producer = Propagation.producer(headers);
    if (producer == null || producer.parent == 0) {
      Span span = Trace.send(Span.CONSUMER, name, target, peer);
      if (span != null && producer != null) {
        span.baggage = producer.baggage;
      }
      return span;
    }
    Span span = Trace.receive(Span.CONSUMER, name, target, null);
    if (span != null) {
      span.peer = peer;
      span.isBelow(producer);
    }
    return span;
  }

  /** Ends the work on a message that this thread has begun last; the error is null if there is none. */
  public static void processed(String error) {
    Span span = Trace.on ? Lane.mine().innermost(Span.CONSUMER) : null;
    if (span != null) {
      fail(span, error);
      Trace.end(span, null);
    }
  }

  /** A span whose failure nothing thrown tells. */
  static void fail(Span span, String error) {
    if (error != null) {
      span.failed = true;
      span.error = error;
    }
  }

  /** A receiver has asked for a message. One that finds nothing, on behalf of nobody, is no span. */
  public static void received(Span span, boolean isMessage, Map<String, ?> headers, Throwable thrown) {
    if (span == null) {
      return;
    }
    if (span.parent == 0 && thrown == null) {
      if (!isMessage) {
        Lane.mine().pop(span);
        return;
      }
      Span producer = Propagation.producer(headers);
      if (producer != null && producer.parent != 0) {
        span.isBelow(producer);
      }
    }
    Trace.end(span, thrown);
  }

  /** A key that may be shown: a short text, or a number. */
  static void key(StringBuilder to, Object key) {
    String text = null;
    if (key instanceof String || key instanceof Number || key instanceof java.util.UUID) {
      text = key.toString();
    }
    if (text != null && !text.isEmpty()) {
      to.append("key=").append(text, 0, Math.min(text.length(), LONGEST_KEY));
    }
  }

  /** A message under way. Its span ends when the library calls back. */
  public static final class Sent implements InvocationHandler {
    private final Span span;
    /** What the program was doing when it sent the message. */
    private final Context context;
    private final Object key;
    private Object next;
    private boolean isOver;

    private Sent(Span span, Context context, Object key) {
      this.span = span;
      this.context = context;
      this.key = key;
    }

    /**
     * Takes an open span from its thread.
     *
     * @param key the message's key, or null
     */
    public static Sent of(Span open, Object key) {
      Span span = Trace.detach(open);
      return new Sent(span, Trace.capture(), key);
    }

    /** The library's callback, which calls the program's own one; that may be null. */
    public <T> T callback(Class<T> type, Object next) {
      this.next = next;
      return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, this));
    }

    /** The call that sends has failed. */
    public void thrown(Throwable thrown) {
      if (thrown != null) {
        end(null, thrown);
      }
    }

    private synchronized void end(Object result, Throwable thrown) {
      if (!isOver) {
        isOver = true;
        span.peer = Kafka.withKey(result == null ? span.peer : Kafka.withPlace(span.peer, result), key);
        Trace.end(span, thrown);
      }
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
      if (method.getDeclaringClass() == Object.class) {
        return ofObject(proxy, method, arguments, next);
      }
      try {
        Throwable thrown = null;
        Object result = null;
        for (Object each : arguments == null ? new Object[0] : arguments) {
          if (each instanceof Throwable) {
            thrown = (Throwable) each;
          } else if (each != null) {
            result = each;
          }
        }
        end(thrown == null ? result : null, thrown);
      } catch (Throwable failure) {
        Log.failed(failure);
      }
      if (next == null) {
        return null;
      }
      int before = Trace.enter(context);
      try {
        return method.invoke(next, arguments);
      } catch (InvocationTargetException thrown) {
        throw thrown.getCause();
      } finally {
        Trace.restore(before);
      }
    }
  }

  /** The program's receiver of one message, with a span around the call that hands it over. */
  public static <T> T delivery(
      Class<T> type, T receiver, String method, String target, String peer, Map<String, ?> headers) {
    if (!Trace.on || !Hooks.messaging || receiver == null) {
      return receiver;
    }
    return type.cast(Proxy.newProxyInstance(
        type.getClassLoader(),
        new Class<?>[] {type},
        new Delivery(receiver, method, target, peer, headers)));
  }

  private static final class Delivery implements InvocationHandler {
    private final Object receiver;
    private final String method;
    private final String target;
    private final String peer;
    private final Map<String, ?> headers;

    private Delivery(Object receiver, String method, String target, String peer, Map<String, ?> headers) {
      this.receiver = receiver;
      this.method = method;
      this.target = target;
      this.peer = peer;
      this.headers = headers;
    }

    @Override
    public Object invoke(Object proxy, Method called, Object[] arguments) throws Throwable {
      if (called.getDeclaringClass() == Object.class) {
        return ofObject(proxy, called, arguments, receiver);
      }
      Span span = null;
      try {
        if (called.getName().equals(method)) {
          span = process("process", target, peer, headers);
        }
      } catch (Throwable failure) {
        Log.failed(failure);
      }
      Throwable thrown = null;
      try {
        return called.invoke(receiver, arguments);
      } catch (InvocationTargetException failure) {
        thrown = failure.getCause();
        throw thrown;
      } finally {
        Trace.end(span, thrown);
      }
    }
  }

  private static Object ofObject(Object proxy, Method method, Object[] arguments, Object of) {
    switch (method.getName()) {
      case "equals":
        return proxy == arguments[0] || of != null && of.equals(arguments[0]);
      case "hashCode":
        return of == null ? System.identityHashCode(proxy) : of.hashCode();
      default:
        return of == null ? "spanwise callback" : of.toString();
    }
  }
}
