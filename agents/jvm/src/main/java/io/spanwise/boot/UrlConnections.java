package io.spanwise.boot;

import java.net.HttpURLConnection;
import java.net.URL;

/** Spans of {@code HttpURLConnection}, which begins with any of several methods. */
public final class UrlConnections {
  private static final Attached<Span> OPEN = new Attached<>();
  private static final Span OVER = new Span();

  private UrlConnections() {}

  static void clear() {
    OPEN.clear();
  }

  /** Before the request is sent. */
  public static void begin(HttpURLConnection connection) {
    if (!Hooks.httpClient) {
      return;
    }
    Span span = OPEN.get(connection);
    if (span == null) {
      URL url = connection.getURL();
      span = Trace.detach(Trace.send(
          Span.HTTP_CLIENT, connection.getRequestMethod(), url.getPath(), url.getAuthority()));
      if (span == null) {
        return;
      }
      OPEN.set(connection, span);
      try {
        for (String header : Propagation.written()) {
          String value = Propagation.value(header, span);
          if (value != null
              && (Propagation.replaces(header) || connection.getRequestProperty(header) == null)) {
            connection.setRequestProperty(header, value);
          }
        }
      } catch (IllegalStateException connected) {
        // The request is under way already.
      }
    }
  }

  /** The status in a line such as {@code HTTP/1.1 200 OK}; 0 if there is none. */
  private static int status(String line) {
    if (line == null || line.length() < 12 || !line.startsWith("HTTP/1.")) {
      return 0;
    }
    int value = 0;
    for (int at = 9; at < 12; at++) {
      int digit = line.charAt(at) - '0';
      if (digit < 0 || digit > 9) {
        return 0;
      }
      value = value * 10 + digit;
    }
    return value;
  }

  /** After the response was received, or the request has failed. */
  public static void end(HttpURLConnection connection, boolean answered, Throwable thrown) {
    Span span = OPEN.get(connection);
    if (span != null && span != OVER) {
      OPEN.set(connection, OVER);
      span.name = connection.getRequestMethod();
      int status = answered ? status(connection.getHeaderField(0)) : 0;
      Trace.end(span, status, status > 0 ? null : thrown);
    }
  }
}
