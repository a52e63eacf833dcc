package io.spanwise.jvm;

import io.spanwise.boot.Log;
import io.spanwise.boot.Sender;
import io.spanwise.boot.Settings;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.instrument.Instrumentation;
import java.util.Enumeration;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;

/**
 * The agent's entry points. The boot loader gets only what woven classes call. The rest, with the
 * library that weaves, stays with the agent's own loader.
 */
public final class Agent {
  private static final String MARK = "spanwise.agent.runs";
  /** What the boot loader gets. */
  private static final String[] FOR_BOOT = {"io/spanwise/boot/", "io/spanwise/helper/"};

  private Agent() {}

  /** Called for {@code -javaagent}. */
  public static void premain(String options, Instrumentation instrumentation) {
    start(options, instrumentation);
  }

  /** Called after attaching to a running virtual machine. */
  public static void agentmain(String options, Instrumentation instrumentation) {
    start(options, instrumentation);
  }

  private static void start(String options, Instrumentation instrumentation) {
    synchronized (Agent.class) {
      if (System.getProperty(MARK) != null) {
        return;
      }
      System.setProperty(MARK, "1");
    }
    try {
      File boot = bootJar();
      try {
        instrumentation.appendToBootstrapClassLoaderSearch(new JarFile(boot));
      } finally {
        // The virtual machine has it open.
        boot.delete();
      }
      Parts.start(options, instrumentation);
    } catch (Throwable failure) {
      System.err.println("spanwise: the agent does not run: " + failure);
    }
  }

  /** A jar of the classes for the boot loader. */
  private static File bootJar() throws Exception {
    File own = new File(Agent.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    File made = File.createTempFile("spanwise-boot-", ".jar");
    byte[] buffer = new byte[16 * 1024];
    try (JarFile from = new JarFile(own);
        JarOutputStream to = new JarOutputStream(new FileOutputStream(made))) {
      to.setLevel(0);
      for (Enumeration<JarEntry> all = from.entries(); all.hasMoreElements(); ) {
        JarEntry entry = all.nextElement();
        if (!entry.isDirectory() && isForBoot(entry.getName())) {
          to.putNextEntry(new JarEntry(entry.getName()));
          try (InputStream bytes = from.getInputStream(entry)) {
            copy(bytes, to, buffer);
          }
        }
      }
    }
    return made;
  }

  private static boolean isForBoot(String name) {
    for (String prefix : FOR_BOOT) {
      if (name.startsWith(prefix)) {
        return true;
      }
    }
    return false;
  }

  private static void copy(InputStream from, OutputStream to, byte[] buffer) throws IOException {
    for (int length = from.read(buffer); length >= 0; length = from.read(buffer)) {
      to.write(buffer, 0, length);
    }
  }

  /** Apart, because it needs the boot loader to have the classes. */
  private static final class Parts {
    private static void start(String options, Instrumentation instrumentation) {
      Settings.read(options);
      if (!"off".equals(Settings.get("spans", "on"))) {
        String other = otherAgent();
        if (other != null) {
          Log.say("stands aside: " + other + " records this program's spans");
        } else {
          recordSpans(instrumentation);
        }
      }
      if (!"off".equals(Settings.get("tasks", "on"))) {
        followTasks(instrumentation);
      }
    }

    private static void recordSpans(Instrumentation instrumentation) {
      try {
        new Weaver(instrumentation).begin();
        Sender.start();
      } catch (Throwable failure) {
        Log.say("no spans are recorded: " + failure);
      }
    }

    /** Handed over work, for spans of this agent and of the kernel side. */
    private static void followTasks(Instrumentation instrumentation) {
      if (System.getProperty("java.specification.version", "").startsWith("1.")) {
        Log.say("work that is handed to other threads is followed from Java 11 on only");
        return;
      }
      try {
        Class<?> helper = Class.forName("io.spanwise.helper.Helper", true, null);
        helper.getMethod("start", Instrumentation.class).invoke(null, instrumentation);
      } catch (Throwable failure) {
        Throwable cause = failure.getCause() == null ? failure : failure.getCause();
        Log.say("work that is handed to other threads is not followed: " + cause);
      }
    }

    /** Another agent that records spans; null if there is none. */
    private static String otherAgent() {
      try {
        ClassLoader.getSystemClassLoader().loadClass("io.opentelemetry.javaagent.OpenTelemetryAgent");
        return "the OpenTelemetry agent";
      } catch (ClassNotFoundException none) {
        // It may come after this one.
      }
      byte[] bytes = new byte[64 * 1024];
      try (InputStream line = new FileInputStream("/proc/self/cmdline")) {
        int length = line.read(bytes);
        String text = new String(bytes, 0, Math.max(0, length), "ISO-8859-1");
        for (String argument : text.split("\0")) {
          if (argument.startsWith("-javaagent:") && argument.contains("opentelemetry")) {
            return "the OpenTelemetry agent";
          }
        }
      } catch (IOException unknown) {
        return null;
      }
      return null;
    }
  }
}
