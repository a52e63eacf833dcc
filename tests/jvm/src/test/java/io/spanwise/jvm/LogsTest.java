package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ch.qos.logback.classic.AsyncAppender;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Consumer;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.SimpleFormatter;
import org.apache.catalina.startup.Tomcat;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.ThreadContext;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/** Lines of logs name their trace and span, within a request and nowhere else. */
class LogsTest {
  /** By message, what the line's context was. */
  private static final Map<String, Map<String, String>> LINES = new ConcurrentHashMap<>();
  private static final ExecutorService POOL = Executors.newFixedThreadPool(1);
  private static Tomcat tomcat;
  private static String at;
  private static volatile Consumer<String> log;

  static final class Requests extends javax.servlet.http.HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(
        javax.servlet.http.HttpServletRequest request, javax.servlet.http.HttpServletResponse response) {
      String path = request.getRequestURI();
      log.accept(path);
      try {
        POOL.submit(() -> log.accept(path + "-pool")).get();
      } catch (Exception failure) {
        throw new IllegalStateException(failure);
      }
    }
  }

  static final class Logback extends AppenderBase<ILoggingEvent> {
    @Override
    protected void append(ILoggingEvent event) {
      LINES.put(event.getMessage(), Map.copyOf(event.getMDCPropertyMap()));
    }
  }

  static final class Log4j extends AbstractAppender {
    @SuppressWarnings("deprecation") // The replacement is not in the oldest version.
    Log4j() {
      super("kept", null, null);
    }

    @Override
    @SuppressWarnings("deprecation")
    public void append(LogEvent event) {
      LINES.put(event.getMessage().getFormattedMessage(), Map.copyOf(event.getContextMap()));
    }
  }

  @BeforeAll
  static void start() throws Exception {
    tomcat = new Tomcat();
    tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
    tomcat.setPort(0);
    var context = tomcat.addContext("", null);
    Tomcat.addServlet(context, "all", new Requests());
    context.addServletMappingDecoded("/", "all");
    tomcat.start();
    at = "http://127.0.0.1:" + tomcat.getConnector().getLocalPort();
  }

  @AfterAll
  static void stop() throws Exception {
    tomcat.stop();
    POOL.shutdown();
  }

  private static Map<String, String> line(String message) throws InterruptedException {
    for (int round = 0; round < 500 && !LINES.containsKey(message); round++) {
      Thread.sleep(20);
    }
    return LINES.get(message);
  }

  /** A line in a request, on a pool's thread, and on that thread after the request. */
  private static void check(String path, Consumer<String> by) throws Exception {
    log = by;
    Servers.call(at + path);
    var span = Receiver.ONE.await(each -> each.component() == 1 && path.equals(each.target()));
    Map<String, String> ids = Map.of(
        "trace_id", span.trace(), "span_id", String.format("%016x", span.id()), "own", "kept");
    assertEquals(ids, line(path));
    assertEquals(ids, line(path + "-pool"));
    POOL.submit(() -> by.accept(path + "-later")).get();
    assertEquals(Map.of("own", "kept"), line(path + "-later"));
    by.accept(path + "-outside");
    assertEquals(Map.of("own", "kept"), line(path + "-outside"));
  }

  @Test
  void logback() throws Exception {
    LoggerContext context = (LoggerContext) LoggerFactory.getILoggerFactory();
    Logback appender = new Logback();
    appender.setContext(context);
    appender.start();
    // Lines are appended by another thread.
    AsyncAppender later = new AsyncAppender();
    later.setContext(context);
    later.addAppender(appender);
    later.start();
    ch.qos.logback.classic.Logger logger = context.getLogger("tested");
    logger.setAdditive(false);
    logger.setLevel(ch.qos.logback.classic.Level.INFO);
    logger.addAppender(later);
    check("/logback", message -> {
      MDC.put("own", "kept");
      logger.info(message);
      assertNull(MDC.get("trace_id"));
      assertEquals("kept", MDC.get("own"));
      MDC.clear();
    });
    // The program's own value stays.
    log = message -> {
      MDC.put("trace_id", "own");
      logger.info(message);
      assertEquals("own", MDC.get("trace_id"));
      MDC.clear();
    };
    Servers.call(at + "/logback-own");
    assertEquals(Map.of("trace_id", "own"), line("/logback-own"));
  }

  @Test
  void log4j() throws Exception {
    Log4j appender = new Log4j();
    appender.start();
    var logger = (org.apache.logging.log4j.core.Logger) LogManager.getLogger("tested");
    logger.addAppender(appender);
    logger.setAdditive(false);
    logger.setLevel(org.apache.logging.log4j.Level.INFO);
    check("/log4j", message -> {
      ThreadContext.put("own", "kept");
      logger.info(message);
      assertFalse(ThreadContext.containsKey("trace_id"));
      assertTrue(ThreadContext.containsKey("own"));
      ThreadContext.clearMap();
    });
  }

  /** Their text says the ids, because the setting {@code jul} is on. */
  @Test
  void javaUtilLogging() throws Exception {
    SimpleFormatter formatter = new SimpleFormatter();
    Map<String, String> texts = new ConcurrentHashMap<>();
    log = message -> texts.put(message, formatter.formatMessage(new LogRecord(Level.INFO, message)));
    Servers.call(at + "/jul");
    var span = Receiver.ONE.await(each -> each.component() == 1 && "/jul".equals(each.target()));
    String ids = String.format(" trace_id=%s span_id=%016x", span.trace(), span.id());
    assertEquals("/jul" + ids, texts.get("/jul"));
    assertEquals("/jul-pool" + ids, texts.get("/jul-pool"));
    log.accept("/jul-outside");
    assertEquals("/jul-outside", texts.get("/jul-outside"));
  }
}
