package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Kafka's clients and a real broker. The build runs it with their oldest and newest versions. */
class KafkaTest {
  @TempDir static Path data;
  private static final Servers SERVERS = new Servers();
  private static String at;
  private static String web;
  private static KafkaProducer<String, String> producer;

  @BeforeAll
  static void start() throws Exception {
    int port = Shop.freePort();
    int control = Shop.freePort();
    at = "127.0.0.1:" + port;
    Path config = data.resolve("server.properties");
    Files.writeString(config, String.join("\n",
        "process.roles=broker,controller",
        "node.id=1",
        "controller.quorum.voters=1@127.0.0.1:" + control,
        "listeners=OUT://" + at + ",CONTROLLER://127.0.0.1:" + control,
        "advertised.listeners=OUT://" + at,
        "listener.security.protocol.map=OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name=OUT",
        "controller.listener.names=CONTROLLER",
        "log.dirs=" + data.resolve("log"),
        "num.partitions=1",
        "offsets.topic.num.partitions=1",
        "offsets.topic.replication.factor=1",
        "group.initial.rebalance.delay.ms=0"));
    Process format = new ProcessBuilder(Servers.java("kafka",
        "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", config.toString()))
        .redirectErrorStream(true).redirectOutput(data.resolve("format.log").toFile()).start();
    assertEquals(0, format.waitFor());
    SERVERS.start(port, data.resolve("broker.log"), Map.of(),
        Servers.java("kafka", "kafka.Kafka", config.toString()));
    web = SERVERS.web();
    producer = new KafkaProducer<>(
        Map.of("bootstrap.servers", at, "linger.ms", 0, "retries", 3),
        new StringSerializer(), new StringSerializer());
  }

  @AfterAll
  static void stop() throws Exception {
    if (producer != null) {
      producer.close();
    }
    SERVERS.close();
  }

  private static KafkaConsumer<String, String> consumer(String topic) {
    KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
        Map.of("bootstrap.servers", at, "group.id", "group-" + topic, "auto.offset.reset", "earliest"),
        new StringDeserializer(), new StringDeserializer());
    consumer.subscribe(List.of(topic));
    return consumer;
  }

  /** The method's argument differs by version. */
  @SuppressWarnings("unchecked")
  private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) throws Exception {
    try {
      return (ConsumerRecords<String, String>)
          KafkaConsumer.class.getMethod("poll", Duration.class).invoke(consumer, Duration.ofMillis(500));
    } catch (NoSuchMethodException older) {
      return (ConsumerRecords<String, String>)
          KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
    }
  }

  private static Receiver.Span sent(String topic, int offset) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == 4 && topic.equals(span.target())
        && span.peer().contains("&offset=" + offset));
  }

  private static Receiver.Span processed(String topic, int offset) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == 5 && topic.equals(span.target())
        && span.peer().contains("&offset=" + offset));
  }

  private static String header(Iterable<Header> headers) {
    String found = null;
    for (Header header : headers) {
      if (header.key().equals("traceparent")) {
        assertNull(found, "two headers");
        found = new String(header.value());
      }
    }
    return found;
  }

  /** Sends two records, takes them in some way, and checks their spans. */
  private static void check(
      String topic,
      Function<ConsumerRecords<String, String>, Iterable<ConsumerRecord<String, String>>> way) throws Exception {
    CompletableFuture<RecordMetadata> acknowledged = new CompletableFuture<>();
    producer.send(new ProducerRecord<>(topic, "k&1", "secret"), (metadata, failure) -> acknowledged.complete(metadata));
    assertEquals(topic, acknowledged.get(30, TimeUnit.SECONDS).topic());
    producer.send(new ProducerRecord<>(topic, "secret")).get(30, TimeUnit.SECONDS);
    List<String> headers = new ArrayList<>();
    try (KafkaConsumer<String, String> consumer = consumer(topic)) {
      for (int round = 0; round < 60 && headers.size() < 2; round++) {
        for (ConsumerRecord<String, String> record : way.apply(poll(consumer))) {
          Servers.call(web + "/" + topic + record.offset());
          headers.add(header(record.headers()));
        }
      }
      // What comes after the last record belongs to none.
      Servers.call(web + "/" + topic + "-after");
    }
    assertEquals(2, headers.size());
    for (int offset = 0; offset < 2; offset++) {
      var sent = sent(topic, offset);
      var processed = processed(topic, offset);
      assertEquals(String.format("00-%s-%016x-01", sent.trace(), sent.id()), headers.get(offset));
      assertEquals("send", sent.name());
      assertEquals("process", processed.name());
      String key = offset == 0 ? "&key=k&1" : "";
      assertEquals("kafka://" + at + "?partition=0&offset=" + offset + key, sent.peer());
      assertEquals(
          "kafka://" + at + "?group=group-" + topic + "&partition=0&offset=" + offset + key, processed.peer());
      assertEquals(0, sent.parent());
      assertEquals(sent.id(), processed.parent());
      assertEquals(sent.trace(), processed.trace());
      assertEquals(processed.id(), Servers.called("/" + topic + offset).parent());
    }
    assertNotEquals(sent(topic, 0).trace(), sent(topic, 1).trace());
    assertEquals(0, Servers.called("/" + topic + "-after").parent());
    assertTrue(Receiver.ONE.all().stream().noneMatch(span -> span.toString().contains("secret")));
  }

  @Test
  void recordsAreProcessedBelowTheirProducers() throws Exception {
    check("all", records -> records);
    check("topics", records -> records.records("topics"));
    check("partitions", records -> records.records(new TopicPartition("partitions", 0)));
  }

  @Test
  void aLoopThatIsLeftEndsWithTheNextPoll() throws Exception {
    producer.send(new ProducerRecord<>("left", "1")).get(30, TimeUnit.SECONDS);
    try (KafkaConsumer<String, String> consumer = consumer("left")) {
      boolean taken = false;
      for (int round = 0; round < 60 && !taken; round++) {
        for (ConsumerRecord<String, String> record : poll(consumer)) {
          taken = record != null;
          break;
        }
      }
      assertTrue(taken);
      poll(consumer);
      Servers.call(web + "/after-left");
    }
    assertEquals(sent("left", 0).id(), processed("left", 0).parent());
    assertEquals(0, Servers.called("/after-left").parent());
  }

  @Test
  void aRecordThatIsSentAgainHasItsOwnHeader() throws Exception {
    ProducerRecord<String, String> record = new ProducerRecord<>("again", "1");
    producer.send(record).get(30, TimeUnit.SECONDS);
    producer.send(record).get(30, TimeUnit.SECONDS);
    List<String> headers = new ArrayList<>();
    try (KafkaConsumer<String, String> consumer = consumer("again")) {
      for (int round = 0; round < 60 && headers.size() < 2; round++) {
        for (ConsumerRecord<String, String> each : poll(consumer)) {
          headers.add(header(each.headers()));
        }
      }
    }
    assertEquals(2, headers.size());
    assertNotNull(headers.get(0));
    assertNotEquals(headers.get(0), headers.get(1));
  }

  @Test
  void aRecordThatIsRefusedHasFailed() throws Exception {
    CompletableFuture<Exception> told = new CompletableFuture<>();
    var future = producer.send(
        new ProducerRecord<>("refused", "x".repeat(2_000_000)), (metadata, failure) -> told.complete(failure));
    assertThrows(ExecutionException.class, future::get);
    assertEquals("RecordTooLargeException", told.get(30, TimeUnit.SECONDS).getClass().getSimpleName());
    var span = Receiver.ONE.await(each -> each.component() == 4 && "refused".equals(each.target()));
    assertTrue(span.failed());
    assertEquals("org.apache.kafka.common.errors.RecordTooLargeException", span.error());
  }

  private static Map<String, String> headers(ConsumerRecord<String, String> record) {
    Map<String, String> all = new HashMap<>();
    for (Header header : record.headers()) {
      assertNull(all.put(header.key(), new String(header.value())), "two headers");
    }
    return all;
  }

  private static ConsumerRecord<String, String> one(KafkaConsumer<String, String> consumer) throws Exception {
    for (int round = 0; round < 60; round++) {
      for (ConsumerRecord<String, String> record : poll(consumer)) {
        return record;
      }
    }
    throw new AssertionError("no record");
  }

  @Test
  void b3AndBaggageGoFromRecordToRecord() throws Exception {
    try (Headers none = new Headers("b3multi+baggage");
        var first = consumer("b3-first");
        var second = consumer("b3-second")) {
      var record = new ProducerRecord<>("b3-first", "key", "value");
      record.headers().add("baggage", Headers.BAGGAGE.getBytes()).add("own", "kept".getBytes());
      producer.send(record);
      // The loop is left, so what follows belongs to the record.
      var taken = headers(one(first));
      Headers.checkB3(sent("b3-first", 0), taken);
      assertEquals("kept", taken.get("own"));
      producer.send(new ProducerRecord<>("b3-second", "key", "value"));
      poll(first);
      var passedOn = headers(one(second));
      poll(second);
      var sent = sent("b3-second", 0);
      Headers.checkB3(sent, passedOn);
      assertEquals(processed("b3-first", 0).id(), sent.parent());
      assertEquals(sent("b3-first", 0).id(), processed("b3-first", 0).parent());
      assertEquals(sent.id(), processed("b3-second", 0).parent());
      assertEquals(sent("b3-first", 0).trace(), processed("b3-second", 0).trace());
    }
  }

  @Test
  void ourOwnHeaderIsShort() throws Exception {
    try (Headers none = new Headers("compact"); var consumer = consumer("compact")) {
      producer.send(new ProducerRecord<>("compact", "key", "value"));
      var headers = headers(one(consumer));
      poll(consumer);
      assertEquals(23, headers.get("spanwise").length());
      assertEquals(1, headers.size());
      var sent = sent("compact", 0);
      assertEquals(sent.id(), processed("compact", 0).parent());
      assertEquals(sent.trace(), processed("compact", 0).trace());
    }
  }
}
