package io.spanwise.helper;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.util.jar.JarFile;

/**
 * The helper's entry points. Only this class is loaded by the system loader. All others are loaded
 * by the boot loader, because classes of the JDK call them.
 */
public final class Agent {
  private Agent() {}

  /** Called for {@code -javaagent}. */
  public static void premain(String options, Instrumentation instrumentation) {
    start(instrumentation);
  }

  /** Called after attaching to a running virtual machine. */
  public static void agentmain(String options, Instrumentation instrumentation) {
    start(instrumentation);
  }

  private static void start(Instrumentation instrumentation) {
    if ("off".equals(System.getenv("SPANWISE_TASKS"))) {
      return;
    }
    try {
      var own = Agent.class.getProtectionDomain().getCodeSource().getLocation();
      instrumentation.appendToBootstrapClassLoaderSearch(new JarFile(new File(own.toURI())));
      Helper.start(instrumentation);
    } catch (Throwable failure) {
      System.err.println("spanwise: the helper does not run: " + failure);
    }
  }
}
