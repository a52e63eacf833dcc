import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.MethodConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.service.GenericService;

/** A Dubbo provider and consumer without a registry. */
public class Shop {
  public interface Carts {
    int total(String user, List<String> items);

    String pay(String card);

    void note(String text);

    String slow(int millis);

    byte[] large(byte[] bytes);
  }

  public interface Missing {
    String anything();
  }

  static class Counted implements Carts {
    public int total(String user, List<String> items) {
      return items.size();
    }

    public String pay(String card) {
      throw new IllegalStateException("no money on " + card);
    }

    public void note(String text) {}

    public String slow(int millis) {
      try {
        Thread.sleep(millis);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
      return "after " + millis;
    }

    public byte[] large(byte[] bytes) {
      return bytes;
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

  static <T> ReferenceConfig<T> reference(Class<T> kind, String url) {
    ReferenceConfig<T> reference = new ReferenceConfig<>();
    reference.setApplication(application("consumer"));
    reference.setInterface(kind);
    reference.setUrl(url + "/" + kind.getName() + "?serialization=hessian2");
    reference.setTimeout(2000);
    reference.setRetries(0);
    reference.setCheck(false);
    return reference;
  }

  static void attempt(Runnable work) {
    try {
      work.run();
    } catch (RuntimeException expected) {
      System.err.println(expected);
    }
  }

  static void consume(String url) throws Exception {
    ReferenceConfig<Carts> reference = reference(Carts.class, url);
    MethodConfig note = new MethodConfig();
    note.setName("note");
    note.setReturn(false);
    MethodConfig slow = new MethodConfig();
    slow.setName("slow");
    slow.setTimeout(600);
    reference.setMethods(Arrays.asList(note, slow));
    Carts carts = reference.get();
    RpcContext.getContext()
        .setAttachment(
            "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    carts.total("geheim", Arrays.asList("a", "b"));
    carts.total("hunter2", Arrays.asList());
    attempt(() -> carts.pay("geheim"));
    carts.note("geheim");
    carts.large(new byte[60_000]);
    // Answered in another order; the last one too late.
    CompletableFuture<?>[] calls =
        IntStream.of(300, 10, 150, 900)
            .mapToObj(millis -> CompletableFuture.runAsync(() -> attempt(() -> carts.slow(millis))))
            .toArray(CompletableFuture[]::new);
    CompletableFuture.allOf(calls).join();
    Thread.sleep(500);
    attempt(() -> reference(Missing.class, url).get().anything());
    ReferenceConfig<GenericService> generic = reference(GenericService.class, url);
    generic.setInterface(Carts.class.getName());
    generic.setUrl(url + "/" + Carts.class.getName() + "?serialization=hessian2");
    generic.setGeneric("true");
    GenericService any = generic.get();
    String[] types = {"java.lang.String", "java.util.List"};
    Object[] arguments = {"geheim", Arrays.asList("a")};
    attempt(() -> any.$invoke("total", types, arguments));
    attempt(() -> any.$invoke("nothing", new String[] {}, new Object[] {}));
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments[0].equals("provide")) {
      provide(Integer.parseInt(arguments[1]));
    } else {
      consume(arguments[1]);
    }
    System.exit(0);
  }
}
