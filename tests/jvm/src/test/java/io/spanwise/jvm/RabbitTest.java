package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** RabbitMQ's client and a real server. The build runs it with its oldest and newest versions. */
class RabbitTest {
  @TempDir static Path data;
  private static final Servers SERVERS = new Servers();
  private static String peer;
  private static String web;
  private static Connection connection;
  private static Channel channel;

  @BeforeAll
  static void start() throws Exception {
    int port = Shop.freePort();
    peer = "rabbitmq://127.0.0.1:" + port;
    Files.createFile(data.resolve("plugins"));
    SERVERS.start(port, data.resolve("rabbitmq.log"), Map.of(
            "HOME", data.toString(),
            "RABBITMQ_CONF_ENV_FILE", "/dev/null",
            "RABBITMQ_NODENAME", "tested" + port + "@localhost",
            "RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1",
            "RABBITMQ_NODE_PORT", Integer.toString(port),
            "RABBITMQ_DIST_PORT", Integer.toString(Shop.freePort()),
            "RABBITMQ_MNESIA_BASE", data.toString(),
            "RABBITMQ_LOG_BASE", data.toString(),
            "RABBITMQ_ENABLED_PLUGINS_FILE", data.resolve("plugins").toString()),
        List.of("/usr/lib/rabbitmq/bin/rabbitmq-server"));
    web = SERVERS.web();
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost("127.0.0.1");
    factory.setPort(port);
    connection = factory.newConnection();
    channel = connection.createChannel();
  }

  @AfterAll
  static void stop() throws Exception {
    if (connection != null) {
      connection.close();
    }
    SERVERS.close();
  }

  private static Receiver.Span span(int component, String name, String target) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == component
        && name.equals(span.name()) && target.equals(span.target()));
  }

  @Test
  void aDeliveryIsBelowItsPublisher() throws Exception {
    channel.exchangeDeclare("orders", "topic");
    channel.queueDeclare("new-orders", false, false, false, null);
    channel.queueBind("new-orders", "orders", "order.*");
    BlockingQueue<Map<String, Object>> headers = new ArrayBlockingQueue<>(10);
    channel.basicConsume("new-orders", true, new DefaultConsumer(channel) {
      @Override
      public void handleDelivery(
          String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
        Servers.call(web + "/delivered-" + new String(body));
        headers.add(properties.getHeaders());
        if (new String(body).equals("bad")) {
          throw new IllegalStateException("expected");
        }
      }
    });
    Map<String, Object> own = Map.of("own", "kept");
    channel.basicPublish(
        "orders", "order.made", new AMQP.BasicProperties.Builder().headers(own).contentType("x/y").build(),
        "good".getBytes());
    var received = headers.poll(20, TimeUnit.SECONDS);
    assertNotNull(received);
    assertEquals("kept", received.get("own").toString());
    assertEquals(1, own.size());
    var publish = span(4, "publish", "orders:order.made");
    var process = span(5, "process", "orders:order.made");
    assertEquals(String.format("00-%s-%016x-01", publish.trace(), publish.id()), received.get("traceparent").toString());
    assertEquals(peer + "?routing_key=order.made", publish.peer());
    assertEquals(peer + "?routing_key=order.made", process.peer());
    assertEquals(publish.id(), process.parent());
    assertEquals(publish.trace(), process.trace());
    assertEquals(process.id(), Servers.called("/delivered-good").parent());
    // The consumer of the oldest version survives what its program throws, and the channel does not.
    channel.basicPublish("orders", "order.broken", null, "bad".getBytes());
    assertNotNull(headers.poll(20, TimeUnit.SECONDS));
    var broken = span(5, "process", "orders:order.broken");
    assertTrue(broken.failed());
    assertEquals("java.lang.IllegalStateException", broken.error());
  }

  @Test
  void aMessageThatIsAskedFor() throws Exception {
    Channel channel = connection.createChannel();
    channel.queueDeclare("asked", false, false, false, null);
    channel.basicGet("asked", true);
    channel.basicPublish("", "asked", null, "1".getBytes());
    var response = channel.basicGet("asked", true);
    for (int round = 0; round < 100 && response == null; round++) {
      Thread.sleep(50);
      response = channel.basicGet("asked", true);
    }
    assertNotNull(response.getProps().getHeaders().get("traceparent"));
    var publish = span(4, "publish", "asked");
    var receive = span(5, "receive", "asked");
    assertEquals(publish.id(), receive.parent());
    assertEquals(peer, receive.peer());
    // Those that found nothing are no spans.
    assertEquals(1, Receiver.ONE.all().stream().filter(span -> "receive".equals(span.name()) && "asked".equals(span.target())).count());
    channel.close();
  }

  private static Map<String, String> texts(Map<String, Object> headers) {
    Map<String, String> all = new HashMap<>();
    headers.forEach((name, value) -> all.put(name, value.toString()));
    return all;
  }

  @Test
  void b3AndBaggageGoFromMessageToMessage() throws Exception {
    try (Headers none = new Headers("b3multi+baggage")) {
      Channel channel = connection.createChannel();
      channel.queueDeclare("b3-first", false, false, false, null);
      channel.queueDeclare("b3-second", false, false, false, null);
      BlockingQueue<Map<String, String>> headers = new ArrayBlockingQueue<>(10);
      channel.basicConsume("b3-first", true, new DefaultConsumer(channel) {
        @Override
        public void handleDelivery(
            String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) throws IOException {
          headers.add(texts(properties.getHeaders()));
          getChannel().basicPublish("", "b3-second", null, body);
        }
      });
      Map<String, Object> own = Map.of("baggage", Headers.BAGGAGE, "own", "kept");
      channel.basicPublish("", "b3-first", new AMQP.BasicProperties.Builder().headers(own).build(), new byte[1]);
      var first = headers.poll(20, TimeUnit.SECONDS);
      assertNotNull(first);
      assertEquals("kept", first.get("own"));
      Headers.checkB3(span(4, "publish", "b3-first"), first);
      var second = channel.basicGet("b3-second", true);
      for (int round = 0; round < 100 && second == null; round++) {
        Thread.sleep(50);
        second = channel.basicGet("b3-second", true);
      }
      assertNotNull(second);
      var passedOn = span(4, "publish", "b3-second");
      Headers.checkB3(passedOn, texts(second.getProps().getHeaders()));
      var process = span(5, "process", "b3-first");
      assertEquals(span(4, "publish", "b3-first").id(), process.parent());
      assertEquals(process.id(), passedOn.parent());
      var receive = span(5, "receive", "b3-second");
      assertEquals(passedOn.id(), receive.parent());
      assertEquals(process.trace(), receive.trace());
      channel.close();
    }
  }

  @Test
  void ourOwnHeaderIsShort() throws Exception {
    try (Headers none = new Headers("compact")) {
      Channel channel = connection.createChannel();
      channel.queueDeclare("compact", false, false, false, null);
      BlockingQueue<Map<String, String>> headers = new ArrayBlockingQueue<>(10);
      channel.basicConsume("compact", true, new DefaultConsumer(channel) {
        @Override
        public void handleDelivery(
            String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
          headers.add(texts(properties.getHeaders()));
        }
      });
      channel.basicPublish("", "compact", null, new byte[1]);
      var taken = headers.poll(20, TimeUnit.SECONDS);
      assertNotNull(taken);
      assertEquals(23, taken.get("spanwise").length());
      assertEquals(1, taken.size());
      var publish = span(4, "publish", "compact");
      assertEquals(publish.id(), span(5, "process", "compact").parent());
      assertEquals(publish.trace(), span(5, "process", "compact").trace());
      channel.close();
    }
  }
}
