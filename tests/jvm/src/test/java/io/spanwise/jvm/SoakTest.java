package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.tools.attach.VirtualMachine;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.ToLongFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/**
 * The agent comes to a program under load and goes again, 100 times: `make soak-jvm`. No request
 * fails, and neither memory nor classes become more.
 */
@EnabledIfSystemProperty(named = "soak.seconds", matches = "\\d+")
class SoakTest {
  private static final int ROUNDS = Integer.getInteger("soak.rounds", 100);
  private static final int CLIENTS = 4;
  /** Rounds until all code has run, and rounds from one measurement to the next. */
  private static final int WARM = ROUNDS / 5;
  private static final int EACH = Math.max(1, ROUNDS / 20);
  private static final int PAUSE_MS = 4;

  /** What the program says of itself after a collection. */
  private record Memory(
      long heapBytes, long metaspaceBytes, long freedMetaspaceBytes, long classes, long oldVersions) {
    static Memory of(Shop shop) throws Exception {
      String[] numbers = Shop.ask(shop.at + "/memory").trim().split(" ");
      return new Memory(Long.parseLong(numbers[0]), Long.parseLong(numbers[1]), Long.parseLong(numbers[2]),
          Long.parseLong(numbers[3]), Long.parseLong(numbers[4]));
    }
  }

  private static void load(Shop shop, String options) throws Exception {
    VirtualMachine machine = VirtualMachine.attach(Long.toString(shop.pid()));
    machine.loadAgent(System.getProperty("agent"), options);
    machine.detach();
  }

  private static long median(List<Memory> measured, ToLongFunction<Memory> of) {
    return measured.stream().mapToLong(of).sorted().skip(measured.size() / 2).findFirst().orElseThrow();
  }

  private static long more(List<Memory> first, List<Memory> last, ToLongFunction<Memory> of) {
    return median(last, of) - median(first, of);
  }

  private static void figure(String name, Object value, String unit) {
    System.out.println("figure jvm.soak_" + name + " " + value + " " + unit);
  }

  @Test
  void itComesAndGoes() throws Exception {
    long pauseMs = Integer.getInteger("soak.seconds") * 1000L / ROUNDS / 2;
    String options = "service=soaked,endpoint=http://127.0.0.1:" + Integer.getInteger("receiver");
    Receiver.ONE.keepFew();
    AtomicBoolean over = new AtomicBoolean();
    AtomicLong answered = new AtomicLong();
    var failures = new ConcurrentLinkedQueue<Throwable>();
    List<Memory> measured = new ArrayList<>();
    long begun = System.nanoTime();
    try (Shop shop = new Shop()) {
      // Whether it can be measured is not to be known at the end.
      Memory.of(shop);
      URI order = URI.create(shop.at + "/order?" + shop.at + "/called");
      List<Thread> load = new ArrayList<>();
      for (int each = 0; each < CLIENTS; each++) {
        Thread thread = new Thread(() -> {
          HttpClient client = HttpClient.newHttpClient();
          while (!over.get()) {
            try {
              var answer = client.send(HttpRequest.newBuilder(order).build(), HttpResponse.BodyHandlers.ofString());
              assertEquals(200, answer.statusCode());
              assertEquals(2, answer.body().trim().split("\n").length, answer::body);
              answered.incrementAndGet();
              Thread.sleep(PAUSE_MS);
            } catch (Throwable failure) {
              failures.add(failure);
            }
          }
        });
        thread.start();
        load.add(thread);
      }
      for (int round = 1; round <= ROUNDS; round++) {
        long before = Receiver.ONE.count();
        load(shop, options);
        assertEquals("used", Shop.ask(shop.at + "/loader?use").trim());
        Thread.sleep(pauseMs);
        load(shop, "detach");
        assertTrue(Receiver.ONE.count() > before, "no span in round " + round);
        assertEquals("gone", Shop.ask(shop.at + "/loader?let-go").trim(), "round " + round);
        Thread.sleep(pauseMs);
        if (round > WARM && round % EACH == 0) {
          measured.add(Memory.of(shop));
        }
      }
      over.set(true);
      for (Thread each : load) {
        each.join();
      }
    }
    List<Memory> first = measured.subList(0, 5);
    List<Memory> last = measured.subList(measured.size() - 5, measured.size());
    long heapMore = more(first, last, Memory::heapBytes);
    long metaspaceMore = more(first, last, Memory::metaspaceBytes);
    long classesMore = more(first, last, Memory::classes);
    figure("seconds", (System.nanoTime() - begun) / 1_000_000_000, "s");
    figure("rounds", ROUNDS, "");
    figure("requests", answered.get(), "");
    figure("failed_requests", failures.size(), "");
    figure("spans", Receiver.ONE.count(), "");
    figure("heap_kb", median(last, Memory::heapBytes) / 1000, "kB");
    figure("heap_more_kb", heapMore / 1000, "kB");
    figure("metaspace_kb", median(last, Memory::metaspaceBytes) / 1000, "kB");
    figure("metaspace_more_kb", metaspaceMore / 1000, "kB");
    // What the virtual machine has freed and not used again, and what it keeps for threads in old code.
    figure("metaspace_freed_more_kb", more(first, last, Memory::freedMetaspaceBytes) / 1000, "kB");
    figure("old_versions_more", more(first, last, Memory::oldVersions), "");
    figure("classes", median(last, Memory::classes), "");
    figure("classes_more", classesMore, "");
    assertTrue(failures.isEmpty(), () -> failures.size() + " requests failed: " + failures.peek());
    // Whatever each round leaves behind is there many times more at the end.
    assertTrue(heapMore < 1_000_000, () -> measured.toString());
    assertTrue(metaspaceMore < 1_000_000, () -> measured.toString());
    assertTrue(classesMore < 25, () -> measured.toString());
  }
}
