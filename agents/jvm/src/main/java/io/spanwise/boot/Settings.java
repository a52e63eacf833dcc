package io.spanwise.boot;

import java.io.File;
import java.io.FileInputStream;
import java.io.InputStream;
import java.util.Properties;

/**
 * Settings: the agent's options, a system property {@code spanwise.NAME}, an environment variable
 * {@code SPANWISE_NAME}, or a file, in this order.
 */
public final class Settings {
  private static final Properties OPTIONS = new Properties();
  private static final Properties FILE = new Properties();

  private Settings() {}

  /** Reads {@code name=value,name=value}, and the file that a setting names. */
  public static void read(String options) {
    OPTIONS.clear();
    FILE.clear();
    if (options != null) {
      for (String each : options.split(",")) {
        int equals = each.indexOf('=');
        if (equals > 0) {
          OPTIONS.setProperty(each.substring(0, equals).trim(), each.substring(equals + 1).trim());
        }
      }
    }
    String file = get("config", null);
    if (file != null) {
      try (InputStream stream = new FileInputStream(new File(file))) {
        FILE.load(stream);
      } catch (Exception unread) {
        Log.say("the settings cannot be read: " + unread);
      }
    }
  }

  public static String get(String name, String otherwise) {
    String value = OPTIONS.getProperty(name);
    if (value == null) {
      value = System.getProperty("spanwise." + name);
    }
    if (value == null) {
      value = System.getenv("SPANWISE_" + name.toUpperCase(java.util.Locale.ROOT).replace('.', '_'));
    }
    if (value == null) {
      value = FILE.getProperty(name);
    }
    return value == null || value.isEmpty() ? otherwise : value;
  }

  /** The name of the service: as set, as OpenTelemetry has it, or that of the program. */
  static String service() {
    String set = get("service", System.getenv("OTEL_SERVICE_NAME"));
    if (set != null && !set.isEmpty()) {
      return set;
    }
    for (String spring : new String[] {
        System.getProperty("spring.application.name"), System.getenv("SPRING_APPLICATION_NAME")}) {
      if (spring != null && !spring.isEmpty()) {
        return spring;
      }
    }
    String command = System.getProperty("sun.java.command", "");
    String first = command.split(" ", 2)[0];
    String name = first.substring(first.lastIndexOf('/') + 1);
    if (name.endsWith(".jar")) {
      // As the kernel side calls it.
      return name.substring(0, name.length() - 4).replaceAll("-\\d[\\w.+-]*$", "");
    }
    name = name.substring(Math.max(name.lastIndexOf('.'), name.lastIndexOf('$')) + 1);
    return name.isEmpty() ? "unknown_service:java" : name;
  }

  /** Takes the server's settings, one a line. Unknown ones are for later agents. */
  static void take(String text) {
    for (String line : text.split("\n")) {
      String[] words = line.trim().split(" +", 2);
      if (words.length == 2 && words[0].equals("sampling")) {
        sampling(words[1]);
      } else if (words[0].equals("hooks_off")) {
        Hooks.off(words.length == 2 ? words[1] : "");
      }
    }
  }

  static void sampling(String value) {
    try {
      int oneIn = Integer.parseInt(value.trim());
      if (oneIn >= 1 && oneIn <= 4000) {
        Trace.oneIn = oneIn;
        return;
      }
    } catch (NumberFormatException none) {
      // Said below.
    }
    Log.say("sampling is 1 in a number from 1 to 4000, not " + value);
  }
}
