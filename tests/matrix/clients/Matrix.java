import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;

/** Dubbo's provider and consumer: Matrix provide PORT, or Matrix MODE PORT. */
public class Matrix {
  public interface Carts {
    String add(String item);

    String pay(String card);

    String list(String user);

    String drop(String user);
  }

  static class Counted implements Carts {
    static String after(int millis) {
      try {
        Thread.sleep(millis);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
      return "geheim";
    }

    public String add(String item) {
      return after(9);
    }

    public String pay(String card) {
      after(6);
      throw new IllegalStateException("no money on " + card);
    }

    public String list(String user) {
      return after(3);
    }

    public String drop(String user) {
      return after(0);
    }
  }

  static ApplicationConfig application(String name) {
    ApplicationConfig application = new ApplicationConfig(name);
    application.setQosEnable(false);
    return application;
  }

  static void provide(int port) throws Exception {
    ServiceConfig<Carts> service = new ServiceConfig<>();
    service.setApplication(application("provider"));
    service.setRegistry(new RegistryConfig("N/A"));
    ProtocolConfig protocol = new ProtocolConfig("dubbo", port);
    protocol.setHost("127.0.0.1");
    protocol.setSerialization("hessian2");
    service.setProtocol(protocol);
    service.setInterface(Carts.class);
    service.setRef(new Counted());
    service.export();
    new CountDownLatch(1).await();
  }

  static void call(Carts carts, int number) {
    String[] names = {"add", "pay", "list", "drop"};
    boolean failed = false;
    try {
      switch (number % 4) {
        case 0 -> carts.add("geheim");
        case 1 -> carts.pay("geheim");
        case 2 -> carts.list("geheim");
        default -> carts.drop("geheim");
      }
    } catch (IllegalStateException expected) {
      failed = true;
    }
    synchronized (System.out) {
      System.out.printf("{\"op\": \"Matrix$Carts/%s\", \"failed\": %b}%n", names[number % 4], failed);
    }
  }

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[1]);
    if (arguments[0].equals("provide")) {
      provide(port);
    }
    // Dubbo does not connect to addresses that it recognises as loopback. This is 127.0.0.1.
    ReferenceConfig<Carts> reference = new ReferenceConfig<>();
    reference.setApplication(application("consumer"));
    reference.setInterface(Carts.class);
    reference.setUrl("dubbo://2130706433:" + port + "/" + Carts.class.getName() + "?serialization=hessian2");
    reference.setTimeout(5000);
    reference.setRetries(0);
    reference.setCheck(false);
    Carts carts = reference.get();
    List<CompletableFuture<Void>> calls = new ArrayList<>();
    for (int count = 0; count < 12; count++) {
      int number = count;
      CompletableFuture<Void> call = CompletableFuture.runAsync(() -> call(carts, number), work -> new Thread(work).start());
      if (arguments[0].equals("sequential")) {
        call.join();
      }
      calls.add(call);
    }
    calls.forEach(CompletableFuture::join);
    System.exit(0);
  }
}
