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

  /** The option that ends what the agent does. */
  private static final String DETACH = "detach";
  private static boolean isInBoot;

  private Agent() {}

  /** Called for {@code -javaagent}. */
  public static void premain(String options, Instrumentation instrumentation) {
    start(options, instrumentation);
  }

  /** Called after attaching to a running virtual machine. */
  public static void agentmain(String options, Instrumentation instrumentation) {
    start(options, instrumentation);
  }

  private static synchronized void start(String options, Instrumentation instrumentation) {
    boolean runs = System.getProperty(MARK) != null;
    if (DETACH.equals(options)) {
      // Another copy of this class may have set the mark, which only that one ends.
      if (runs && isInBoot) {
        Parts.end();
        System.clearProperty(MARK);
      }
      return;
    }
    if (runs) {
      return;
    }
    System.setProperty(MARK, "1");
    try {
      if (!isInBoot) {
        File boot = bootJar();
        try {
          instrumentation.appendToBootstrapClassLoaderSearch(new JarFile(boot));
        } finally {
          // The virtual machine has it open.
          boot.delete();
        }
        isInBoot = true;
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
    /** What has changed classes; null if nothing has. */
    private static Weaver weaver;
    private static boolean followsTasks;

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
        weaver = new Weaver(instrumentation);
        weaver.begin();
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
        followsTasks = true;
      } catch (Throwable failure) {
        Throwable cause = failure.getCause() == null ? failure : failure.getCause();
        Log.say("work that is handed to other threads is not followed: " + cause);
      }
    }

    /** Records nothing any more, and gives classes their own code back. */
    private static void end() {
      Sender.stop();
      if (weaver != null) {
        weaver.end();
        weaver = null;
      }
      if (followsTasks) {
        followsTasks = false;
        try {
          Class.forName("io.spanwise.helper.Helper", true, null).getMethod("stop").invoke(null);
        } catch (ReflectiveOperationException failure) {
          throw new IllegalStateException("work that is handed over is still followed", failure);
        }
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
