package io.spanwise.boot;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.function.BiConsumer;

/**
 * Ends a span when a library calls back. It implements the library's own interface, which only the
 * library's loader has.
 */
public final class Listener implements InvocationHandler, BiConsumer<Object, Throwable> {
  private final Span span;
  /** The program's own callback; null if there is none. */
  private final Object next;
  private boolean isOver;

  private Listener(Span span, Object next) {
    this.span = span;
    this.next = next;
  }

  public static <T> T of(Class<T> type, Span span, Object next) {
    Object made = Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, new Listener(span, next));
    return type.cast(made);
  }

  /** For a future's completion. */
  public static BiConsumer<Object, Throwable> whenComplete(Span span) {
    return new Listener(span, null);
  }

  @Override
  public void accept(Object result, Throwable thrown) {
    finish(statusOf(result), thrown instanceof java.util.concurrent.CompletionException
        && thrown.getCause() != null ? thrown.getCause() : thrown);
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    String name = method.getName();
    if (method.getDeclaringClass() == Object.class) {
      switch (name) {
        case "equals":
          return proxy == arguments[0];
        case "hashCode":
          return System.identityHashCode(proxy);
        default:
          return "spanwise listener";
      }
    }
    try {
      ended(name, arguments == null ? new Object[0] : arguments);
    } catch (Throwable failure) {
      Log.say("listener: " + failure);
    }
    if (next == null) {
      return null;
    }
    try {
      return method.invoke(next, arguments);
    } catch (java.lang.reflect.InvocationTargetException thrown) {
      throw thrown.getCause();
    }
  }

  private void ended(String name, Object[] arguments) {
    Throwable thrown = null;
    Object result = null;
    for (Object each : arguments) {
      if (each instanceof Throwable) {
        thrown = (Throwable) each;
      } else if (each != null) {
        result = each;
      }
    }
    switch (name) {
      case "onStartAsync":
        return;
      case "onTimeout":
        span.error = "timeout";
        span.kept = true;
        return;
      case "onError": {
        Object cause = result == null ? null : call(result, "getThrowable");
        span.error = cause == null ? "error" : cause.getClass().getName();
        span.kept = true;
        return;
      }
      case "onComplete":
        finish(statusOf(call(call(result, "getAsyncContext"), "getResponse")), null);
        return;
      default:
        finish(thrown == null ? statusOf(result) : 0, thrown);
    }
  }

  private synchronized void finish(int status, Throwable thrown) {
    if (!isOver) {
      isOver = true;
      if (thrown == null && span.error != null) {
        span.failed = true;
      }
      Trace.end(span, status, thrown);
    }
  }

  /** The status of a response, whatever its library calls it. */
  private static int statusOf(Object response) {
    if (response == null) {
      return 0;
    }
    for (String name : new String[] {"statusCode", "getStatus", "code", "getCode"}) {
      Object value = call(response, name);
      if (value instanceof Integer) {
        return (Integer) value;
      }
    }
    Object line = call(response, "getStatusLine");
    Object value = line == null ? null : call(line, "getStatusCode");
    return value instanceof Integer ? (Integer) value : 0;
  }

  /** Calls a method that some public type of the object has; null if there is none. */
  static Object call(Object object, String name) {
    if (object == null) {
      return null;
    }
    for (Class<?> type = object.getClass(); type != null; type = type.getSuperclass()) {
      Object found = callAs(type, object, name);
      if (found != null) {
        return found;
      }
      for (Class<?> implemented : type.getInterfaces()) {
        found = callAs(implemented, object, name);
        if (found != null) {
          return found;
        }
      }
    }
    return null;
  }

  private static Object callAs(Class<?> type, Object object, String name) {
    if (!java.lang.reflect.Modifier.isPublic(type.getModifiers())) {
      return null;
    }
    try {
      return type.getMethod(name).invoke(object);
    } catch (Throwable none) {
      return null;
    }
  }
}
