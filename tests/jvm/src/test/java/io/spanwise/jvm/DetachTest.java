package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.tools.attach.VirtualMachine;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** The agent goes from a program that runs, and comes again. */
class DetachTest {
  private static final int ROUNDS = 20;
  private static final String TRACE = "0af7651916cd43dd8448eb211c80319c";

  private static void load(long pid, String options) throws Exception {
    VirtualMachine machine = VirtualMachine.attach(Long.toString(pid));
    machine.loadAgent(System.getProperty("agent"), options);
    machine.detach();
  }

  private static String options() {
    return "service=comes,endpoint=http://127.0.0.1:" + Integer.getInteger("receiver");
  }

  private static String[] order(Shop shop) throws Exception {
    return Shop.ask(shop.at + "/order?" + shop.at + "/called",
        "traceparent", "00-" + TRACE + "-b7ad6b7169203331-01").trim().split("\n");
  }

  @Test
  void noRequestFailsWhileItComesAndGoes() throws Exception {
    try (Shop shop = new Shop()) {
      AtomicBoolean over = new AtomicBoolean();
      AtomicInteger answered = new AtomicInteger();
      var failures = new ConcurrentLinkedQueue<Throwable>();
      List<Thread> load = new ArrayList<>();
      for (int each = 0; each < 8; each++) {
        Thread thread = new Thread(() -> {
          while (!over.get()) {
            try {
              String[] headers = order(shop);
              assertEquals(2, headers.length);
              for (String header : headers) {
                // A link is right or is not there, never that of another trace.
                if (!header.equals("null")) {
                  answered.incrementAndGet();
                }
              }
              Thread.sleep(5);
            } catch (Throwable failure) {
              failures.add(failure);
            }
          }
        });
        thread.start();
        load.add(thread);
      }
      for (int round = 0; round < ROUNDS; round++) {
        load(shop.pid(), options());
        for (String header : order(shop)) {
          assertEquals(TRACE, header.split("-").length > 1 ? header.split("-")[1] : header, "round " + round);
        }
        load(shop.pid(), "detach");
        for (String header : order(shop)) {
          assertEquals("null", header, "round " + round);
        }
      }
      over.set(true);
      for (Thread each : load) {
        each.join();
      }
      assertTrue(failures.isEmpty(), () -> failures.size() + " failed: " + failures.peek());
      assertTrue(answered.get() > ROUNDS, answered::toString);

      // After all that, links are as they would be at first.
      load(shop.pid(), options());
      String[] headers = order(shop);
      assertNotEquals(headers[0], headers[1]);
      for (String header : headers) {
        long id = Long.parseUnsignedLong(header.split("-")[2], 16);
        var call = Receiver.ONE.await(span -> span.component() == 2 && span.id() == id);
        var server = Receiver.ONE.await(span -> span.component() == 1 && span.id() == call.parent());
        assertEquals(0xb7ad6b7169203331L, server.parent());
        assertEquals("/order", server.target());
      }
    }
  }

  @Test
  void noLoaderOfTheProgramIsHeld() throws Exception {
    Process process = new ProcessBuilder(
        System.getProperty("java.home") + "/bin/java", "-Xmx128m",
        "-cp", System.getProperty("java.class.path"), Loaders.class.getName())
        .redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try (PrintWriter asks = new PrintWriter(process.outputWriter(), true);
        BufferedReader answers = process.inputReader()) {
      for (int round = 0; round < 3; round++) {
        load(process.pid(), options());
        asks.println("use");
        assertEquals("used", answers.readLine());
        load(process.pid(), "detach");
        // What was woven works on without the agent.
        asks.println("use");
        assertEquals("used", answers.readLine());
        asks.println("let go");
        assertEquals("gone", answers.readLine(), "round " + round);
      }
      load(process.pid(), options());
      asks.println("use");
      assertEquals("used", answers.readLine());
      Receiver.ONE.await(span -> span.component() == 1 && "/loaded".equals(span.target()));
      asks.println("let go");
      assertEquals("gone", answers.readLine(), "with the agent");
    } finally {
      process.destroy();
      process.waitFor();
    }
  }
}
