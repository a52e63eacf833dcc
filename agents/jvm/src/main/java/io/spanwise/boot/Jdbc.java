package io.spanwise.boot;

/** What is known about JDBC's objects. */
public final class Jdbc {
  private static final Attached<String> CONNECTIONS = new Attached<>();
  private static final Attached<Prepared> STATEMENTS = new Attached<>();

  private Jdbc() {}

  private static final class Prepared {
    private final String sql;
    private final String peer;

    private Prepared(String sql, String peer) {
      this.sql = sql;
      this.peer = peer;
    }
  }

  public static void connected(Object connection, String url) {
    if (connection != null && url != null) {
      CONNECTIONS.set(connection, peer(url));
    }
  }

  public static void created(Object connection, Object statement, String sql) {
    if (statement != null && STATEMENTS.get(statement) == null) {
      STATEMENTS.set(statement, new Prepared(sql, CONNECTIONS.get(connection)));
    }
  }

  /** {@code jdbc:postgresql://host:5432/name?user=x} is {@code postgresql://host:5432/name}. */
  static String peer(String url) {
    String text = url.startsWith("jdbc:") ? url.substring(5) : url;
    int end = text.length();
    for (char stop : new char[] {'?', ';'}) {
      int at = text.indexOf(stop);
      if (at >= 0 && at < end) {
        end = at;
      }
    }
    text = text.substring(0, end);
    // Oracle and others allow a name and a password here.
    int at = text.lastIndexOf('@');
    int system = text.indexOf(':');
    if (at >= 0 && system >= 0) {
      String rest = text.substring(at + 1);
      text = text.substring(0, system) + (rest.startsWith("//") ? ":" : "://") + rest;
    }
    return text;
  }

  /** Begins a call. The statement may be given, or be known from when it was prepared. */
  public static Span begin(Object statement, String sql) {
    if (!Hooks.jdbc) {
      return null;
    }
    Prepared known = STATEMENTS.get(statement);
    String text = sql != null ? sql : known == null ? null : known.sql;
    return Trace.send(Span.DATABASE, operation(text), text, known == null ? null : known.peer);
  }

  /** The first word, as one of few constants. */
  static String operation(String sql) {
    if (sql == null) {
      return "SQL";
    }
    int at = 0;
    while (at < sql.length() && (sql.charAt(at) <= ' ' || sql.charAt(at) == '(')) {
      at++;
    }
    for (String word : WORDS) {
      if (sql.regionMatches(true, at, word, 0, word.length())) {
        return word;
      }
    }
    return "SQL";
  }

  private static final String[] WORDS = {
    "SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "MERGE", "CALL", "CREATE", "DROP", "ALTER",
    "TRUNCATE", "REPLACE", "SET", "SHOW", "BEGIN", "COMMIT", "ROLLBACK", "EXPLAIN", "VALUES",
  };
}
