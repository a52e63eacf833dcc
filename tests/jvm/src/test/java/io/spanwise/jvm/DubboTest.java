package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Calls of Dubbo by its own protocol and by Triple, which is gRPC's. */
class DubboTest {
  public interface Stock {
    String first(String item);

    CompletableFuture<String> later(String item);

    String fails(String item);
  }

  public interface Depot {
    String count(String item);
  }

  private static Stock stock;
  private static Depot depot;

  private static final class StockService implements Stock {
    @Override
    public String first(String item) {
      return depot.count(item);
    }

    @Override
    public CompletableFuture<String> later(String item) {
      CompletableFuture<String> result = new CompletableFuture<>();
      new Thread(() -> {
        try {
          Thread.sleep(80);
        } catch (InterruptedException interrupted) {
          return;
        }
        result.complete(item);
      }).start();
      return result;
    }

    @Override
    public String fails(String item) {
      throw new IllegalArgumentException(item);
    }
  }

  private static <T> void export(Class<T> type, T service, String protocol, int port) {
    ServiceConfig<T> config = new ServiceConfig<>();
    config.setInterface(type);
    config.setRef(service);
    config.setRegistry(new RegistryConfig(RegistryConfig.NO_AVAILABLE));
    ProtocolConfig of = new ProtocolConfig(protocol, port);
    of.setHost("127.0.0.1");
    config.setProtocol(of);
    config.export();
  }

  private static <T> T refer(Class<T> type, String protocol, int port) {
    ReferenceConfig<T> config = new ReferenceConfig<>();
    config.setInterface(type);
    config.setUrl(protocol + "://127.0.0.1:" + port + "/" + type.getName());
    config.setScope("remote");
    config.setCheck(false);
    config.setTimeout(5_000);
    config.setRetries(0);
    return config.get();
  }

  /**
   * Runs the calls in a virtual machine without Spring, because Dubbo uses whichever Spring it finds
   * and does not fit all.
   */
  @BeforeAll
  static void run() throws Exception {
    assertTrue(Receiver.ONE.all().isEmpty());
    String path = Arrays.stream(System.getProperty("java.class.path").split(":"))
        .filter(each -> !each.contains("/org/springframework/")).collect(Collectors.joining(":"));
    Process process = new ProcessBuilder(
        System.getProperty("java.home") + "/bin/java", "-Xmx256m",
        "-javaagent:" + System.getProperty("agent") + "=endpoint=http://127.0.0.1:"
            + System.getProperty("receiver") + ",service=dubbo",
        "-Ddubbo.application.logger=slf4j", "-Djava.net.preferIPv4Stack=true",
        // Old versions define classes in a way of old Java.
        "--add-opens", "java.base/java.lang=ALL-UNNAMED",
        "-cp", path, DubboTest.class.getName())
        .redirectError(ProcessBuilder.Redirect.INHERIT).start();
    List<String> said = process.inputReader().lines().filter(line -> line.startsWith("said ")).toList();
    assertEquals(List.of("said 100", "said x", "said java.lang.IllegalArgumentException"), said);
    assertEquals(0, process.waitFor());
  }

  public static void main(String[] none) throws Exception {
    start();
    var pool = Executors.newFixedThreadPool(16);
    List<Callable<String>> tasks = new ArrayList<>();
    for (int each = 0; each < 100; each++) {
      String item = "i" + each;
      tasks.add(() -> stock.first(item));
    }
    int right = 0;
    for (var each : pool.invokeAll(tasks)) {
      right += each.get().startsWith("7 i") ? 1 : 0;
    }
    System.out.println("said " + right);
    System.out.println("said " + stock.later("x").get());
    try {
      stock.fails("x");
    } catch (RuntimeException failure) {
      System.out.println("said " + failure.getClass().getName());
    }
    System.exit(0);
  }

  @SuppressWarnings("deprecation") // It works in all versions.
  private static void start() throws Exception {
    ApplicationConfig application = new ApplicationConfig("tested");
    application.setQosEnable(false);
    var model = Class.forName("org.apache.dubbo.rpc.model.ApplicationModel");
    Object config = model.getMethod("getConfigManager").invoke(null);
    for (var method : config.getClass().getMethods()) {
      if (method.getName().equals("setApplication")) {
        method.invoke(config, application);
      }
    }
    int stockPort = Shop.freePort();
    int depotPort = Shop.freePort();
    // Triple of the first versions needs more libraries than are here.
    boolean isFirst = DubboTest.class.getResource(
        "/org/apache/dubbo/rpc/protocol/tri/rest/mapping/DefaultRequestMappingRegistry.class") == null;
    String inner = isFirst ? "dubbo" : "tri";
    export(Depot.class, item -> "7 " + item, inner, depotPort);
    depot = refer(Depot.class, inner, depotPort);
    export(Stock.class, new StockService(), "dubbo", stockPort);
    stock = refer(Stock.class, "dubbo", stockPort);
  }

  private static Receiver.Span call(String method) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == 6 && (Stock.class.getName() + "/" + method).equals(span.target()));
  }

  private static Receiver.Span performed(Receiver.Span call) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == 7 && span.parent() == call.id());
  }

  @Test
  void everyLinkOfManyCallsAtOnceIsRight() throws Exception {
    Receiver.ONE.awaitQuiet();
    int trees = 0;
    for (Receiver.Span root : Receiver.ONE.all()) {
      if (root.component() == 6 && (Stock.class.getName() + "/first").equals(root.target())) {
        trees++;
        assertEquals("dubbo", root.name());
        var first = performed(root);
        var inner = Receiver.ONE.await(span -> span.component() == 6 && span.parent() == first.id());
        assertEquals(Depot.class.getName() + "/count", inner.target());
        assertEquals(root.trace(), performed(inner).trace());
      }
    }
    assertEquals(100, trees);
  }

  @Test
  void aCallThatIsAnsweredLaterEndsThen() throws Exception {
    var call = call("later");
    assertTrue(call.durationNano() >= 75_000_000L, call::toString);
    assertTrue(performed(call).durationNano() >= 75_000_000L);
  }

  @Test
  void aFailureIsTold() throws Exception {
    var call = call("fails");
    assertTrue(call.failed());
    assertEquals("java.lang.IllegalArgumentException", call.error());
    assertEquals("java.lang.IllegalArgumentException", performed(call).error());
  }
}
