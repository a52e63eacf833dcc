package io.spanwise.helper;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.util.jar.JarFile;

/**
 * Where the virtual machine begins with the helper. Only this class is the system loader's; all
 * others are found by the boot loader, for classes of the JDK call them.
 */
public final class Agent {
  private Agent() {}

  /** With {@code -javaagent}. */
  public static void premain(String options, Instrumentation instrumentation) {
    start(instrumentation);
  }

  /** Attached to a virtual machine that runs. */
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
