package io.spanwise.boot;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/** Which groups of hooks record. A group that is off stays woven, and costs one read of a field. */
public final class Hooks {
  public static volatile boolean servlet = true;
  public static volatile boolean httpServer = true;
  public static volatile boolean jdbc = true;
  public static volatile boolean httpClient = true;
  public static volatile boolean messaging = true;
  public static volatile boolean rpc = true;
  public static volatile boolean cache = true;
  public static volatile boolean logs = true;
  public static volatile boolean jobs = true;

  private Hooks() {}

  static void off(String names) {
    Set<String> off = new HashSet<>(Arrays.asList(names.trim().split("[ ,]+")));
    servlet = !off.contains("servlet");
    httpServer = !off.contains("http_server");
    jdbc = !off.contains("jdbc");
    httpClient = !off.contains("http_client");
    messaging = !off.contains("messaging");
    rpc = !off.contains("rpc");
    cache = !off.contains("cache");
    logs = !off.contains("logs");
    jobs = !off.contains("jobs");
  }
}
