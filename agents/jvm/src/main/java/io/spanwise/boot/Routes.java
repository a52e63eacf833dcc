package io.spanwise.boot;

import java.net.URI;

/** Routes, as frameworks know them: the patterns of paths that lead to what handles a request. */
public final class Routes {
  private static final Attached<String> OF_METHODS = new Attached<>();

  private Routes() {}

  static void clear() {
    OF_METHODS.clear();
  }

  /** Two parts of a path with one slash between them. */
  public static String joined(String first, String second) {
    if (second == null || second.isEmpty() || second.equals("/")) {
      return first == null ? "" : first;
    }
    String left = first == null ? "" : first.endsWith("/") ? first.substring(0, first.length() - 1) : first;
    return second.startsWith("/") ? left + second : left + "/" + second;
  }

  /** The pattern is below the servlet if that is mapped to a prefix. */
  public static void spring(String context, String servlet, String within, Object pattern) {
    if (!(pattern instanceof String) || ((String) pattern).isEmpty()) {
      return;
    }
    String prefix = context == null ? "" : context;
    if (within != null && servlet != null && !servlet.isEmpty() && !((String) pattern).startsWith(servlet + "/")) {
      prefix = prefix + servlet;
    }
    Trace.route(prefix.isEmpty() ? (String) pattern : joined(prefix, (String) pattern));
  }

  /** Either of what annotated and functional handlers leave. */
  public static void webFlux(Object context, Object pattern, Object functional) {
    Object found = pattern != null ? pattern : functional;
    if (found != null) {
      String route = found.toString();
      if (context instanceof Context) {
        Trace.route((Context) context, route);
      }
      Trace.route(route);
    }
  }

  /** A route below the base that an object of JAX-RS tells. */
  public static void below(Object uri, String route) {
    Object base = Listener.call(uri, "getBaseUri");
    String path = base instanceof URI ? ((URI) base).getPath() : "";
    String whole = joined(path, route);
    Trace.route(whole.isEmpty() ? "/" : whole);
  }

  /** The base is the same for all requests of a method. */
  public static void resteasy(Object request, Object method) {
    if (method == null) {
      return;
    }
    String known = OF_METHODS.get(method);
    if (known == null) {
      Object path = Listener.call(method, "getFullpath");
      if (path == null) {
        return;
      }
      Object base = Listener.call(Listener.call(request, "getUri"), "getBaseUri");
      known = joined(base instanceof URI ? ((URI) base).getPath() : "", path.toString());
      known = known.startsWith("/") ? known : "/" + known;
      OF_METHODS.set(method, known);
    }
    Trace.route(known);
  }
}
