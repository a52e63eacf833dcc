package io.spanwise.boot;

/** SQL statements without their values, which may be secret and make many of one statement. */
final class Sql {
  private static final int LONGEST = 2048;

  private Sql() {}

  /** Texts and numbers become a question mark; comments and line breaks one space. */
  static String withoutLiterals(String sql) {
    int end = Math.min(sql.length(), LONGEST);
    StringBuilder out = new StringBuilder(end);
    int at = 0;
    while (at < end) {
      char character = sql.charAt(at);
      if (character == '\'') {
        at = afterText(sql, at, end);
        out.append('?');
      } else if (character == '"' || character == '`') {
        int close = sql.indexOf(character, at + 1);
        int stop = close < 0 || close >= end ? end : close + 1;
        out.append(sql, at, stop);
        at = stop;
      } else if (character == '$' && dollarTag(sql, at) != null) {
        String tag = dollarTag(sql, at);
        int close = sql.indexOf(tag, at + tag.length());
        at = close < 0 ? end : close + tag.length();
        out.append('?');
      } else if (sql.startsWith("--", at)) {
        int line = sql.indexOf('\n', at);
        at = line < 0 ? end : line;
      } else if (sql.startsWith("/*", at)) {
        int close = sql.indexOf("*/", at + 2);
        at = close < 0 ? end : close + 2;
        space(out);
      } else if (Character.isWhitespace(character)) {
        space(out);
        at++;
      } else if (character >= '0' && character <= '9' && !isWithinWord(out)) {
        while (at < end && isOfNumber(sql, at)) {
          at++;
        }
        out.append('?');
      } else {
        out.append(character);
        at++;
      }
    }
    return out.toString().trim();
  }

  private static void space(StringBuilder out) {
    if (out.length() > 0 && out.charAt(out.length() - 1) != ' ') {
      out.append(' ');
    }
  }

  private static boolean isWithinWord(StringBuilder out) {
    if (out.length() == 0) {
      return false;
    }
    char before = out.charAt(out.length() - 1);
    return Character.isLetterOrDigit(before) || before == '_' || before == '$' || before == ':';
  }

  private static boolean isOfNumber(String sql, int at) {
    char character = sql.charAt(at);
    boolean sign = (character == '-' || character == '+')
        && (sql.charAt(at - 1) == 'e' || sql.charAt(at - 1) == 'E');
    return sign || Character.isLetterOrDigit(character) || character == '.' || character == '_';
  }

  /** Quotes are doubled, or follow a backslash. */
  private static int afterText(String sql, int at, int end) {
    for (int index = at + 1; index < end; index++) {
      char character = sql.charAt(index);
      if (character == '\\') {
        index++;
      } else if (character == '\'') {
        if (index + 1 < end && sql.charAt(index + 1) == '\'') {
          index++;
        } else {
          return index + 1;
        }
      }
    }
    return end;
  }

  /** The mark of PostgreSQL's dollar-quoted text that starts here. */
  private static String dollarTag(String sql, int at) {
    int close = sql.indexOf('$', at + 1);
    if (close < 0 || close - at > 32) {
      return null;
    }
    for (int index = at + 1; index < close; index++) {
      char character = sql.charAt(index);
      boolean first = index == at + 1;
      if (!(Character.isLetter(character) || character == '_' || !first && Character.isDigit(character))) {
        return null;
      }
    }
    return sql.substring(at, close + 1);
  }
}
