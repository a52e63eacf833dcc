package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import org.junit.jupiter.api.Test;

/** The server takes nothing for a while: what a ring has no room for is dropped and counted. */
class FullTest {
  private static final int RING = 1024;
  private static final int STATEMENTS = 20_000;

  @Test
  void eachSpanComesOrIsCounted() throws Exception {
    Receiver.ONE.busy(true);
    try (Connection connection = DriverManager.getConnection("jdbc:h2:mem:full");
        Statement statement = connection.createStatement()) {
      long before = Receiver.ONE.count();
      statement.execute("select 0");
      // The sender has taken it, and tries again and again.
      Thread.sleep(2_000);
      for (int made = 1; made < STATEMENTS; made++) {
        statement.execute("select " + made);
      }
      Receiver.ONE.busy(false);
      long end = System.nanoTime() + 60_000_000_000L;
      while (Receiver.ONE.count() - before + Receiver.ONE.dropped() < STATEMENTS && System.nanoTime() < end) {
        Thread.sleep(100);
      }
      long came = Receiver.ONE.count() - before;
      assertEquals(STATEMENTS, came + Receiver.ONE.dropped());
      assertTrue(came >= RING && came <= 2 * RING + 1, () -> came + " came");
    } finally {
      Receiver.ONE.busy(false);
    }
  }
}
