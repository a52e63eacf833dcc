package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.sun.tools.attach.VirtualMachine;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.junit.jupiter.api.Test;

/** The agent comes to a program whose classes are loaded and were used. */
class LateAttachTest {
  private static final String TRACE = "0af7651916cd43dd8448eb211c80319c";

  private static String[] order(Shop shop) throws Exception {
    return Shop.ask(shop.at + "/order?" + shop.at + "/called",
        "traceparent", "00-" + TRACE + "-b7ad6b7169203331-01").trim().split("\n");
  }

  private static void attach(Shop shop, String jar) throws Exception {
    VirtualMachine machine = VirtualMachine.attach(Long.toString(shop.pid()));
    machine.loadAgent(
        jar, "service=late,endpoint=http://127.0.0.1:" + Integer.getInteger("receiver"));
    machine.detach();
  }

  /** `spanwise java attach` removes the jar that it has brought. */
  @Test
  void classesAreWovenThatAreLoadedWhenTheJarIsGone() throws Exception {
    assertNotNull(Receiver.ONE);
    Path jar = Files.createTempFile("agent", ".jar");
    Files.copy(Path.of(System.getProperty("agent")), jar, StandardCopyOption.REPLACE_EXISTING);
    try (Shop shop = new Shop()) {
      attach(shop, jar.toString());
      Files.delete(jar);
      // The driver and the clients are loaded now.
      for (String header : order(shop)) {
        assertEquals(TRACE, header.split("-")[1]);
      }
    }
  }

  @Test
  void loadedClassesAreWoven() throws Exception {
    try (Shop shop = new Shop()) {
      for (int round = 0; round < 50; round++) {
        for (String header : order(shop)) {
          assertEquals("null", header);
        }
      }
      attach(shop, System.getProperty("agent"));
      // The agent has come, so the very next request is traced.
      String[] headers = order(shop);
      assertEquals(2, headers.length);
      assertNotEquals(headers[0], headers[1]);
      for (String header : headers) {
        assertEquals(TRACE, header.split("-").length > 1 ? header.split("-")[1] : header);
      }
      var server = Receiver.ONE.await(span -> span.component() == 1 && "/order".equals(span.target()));
      assertEquals(0xb7ad6b7169203331L, server.parent());
      var statement = Receiver.ONE.await(span -> span.component() == 3);
      assertEquals(server.id(), statement.parent());
      for (String header : headers) {
        long id = Long.parseUnsignedLong(header.split("-")[2], 16);
        var client = Receiver.ONE.await(span -> span.component() == 2 && span.id() == id);
        assertEquals(server.id(), client.parent());
        Receiver.ONE.await(span -> span.component() == 1 && span.parent() == id);
      }
    }
  }
}
