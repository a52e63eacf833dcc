package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** RocketMQ's client, a real name server and broker. The build runs its oldest and newest versions. */
class RocketTest {
  @TempDir static Path data;
  private static final Servers SERVERS = new Servers();
  private static String names;
  private static String broker;
  private static String web;
  private static DefaultMQProducer producer;

  @BeforeAll
  static void start() throws Exception {
    int namesPort = Shop.freePort();
    int brokerPort = Shop.freePort();
    names = "127.0.0.1:" + namesPort;
    broker = "127.0.0.1:" + brokerPort;
    Path namesConfig = data.resolve("names.conf");
    Files.writeString(namesConfig, "listenPort=" + namesPort + "\nkvConfigPath=" + data.resolve("kv.json") + "\n");
    Path config = data.resolve("broker.conf");
    Files.writeString(config, String.join("\n",
        "brokerName=tested",
        "brokerIP1=127.0.0.1",
        "listenPort=" + brokerPort,
        "haListenPort=" + Shop.freePort(),
        "namesrvAddr=" + names,
        "storePathRootDir=" + data.resolve("store"),
        "storePathCommitLog=" + data.resolve("store/commitlog"),
        "mappedFileSizeCommitLog=16777216",
        "mappedFileSizeConsumeQueue=60000",
        "autoCreateTopicEnable=true",
        "defaultTopicQueueNums=1",
        "diskMaxUsedSpaceRatio=99",
        "timerWheelEnable=false"));
    Map<String, String> environment = Map.of("ROCKETMQ_HOME", data.toString());
    Path home = data;
    SERVERS.start(namesPort, data.resolve("names.log"), environment, rocket(home,
        "org.apache.rocketmq.namesrv.NamesrvStartup", namesConfig));
    SERVERS.start(brokerPort, data.resolve("broker.log"), environment, rocket(home,
        "org.apache.rocketmq.broker.BrokerStartup", config));
    web = SERVERS.web();
    System.setProperty("rocketmq.client.logRoot", data.toString());
    System.setProperty("rocketmq.log.root.dir", data.toString());
    producer = new DefaultMQProducer("producers");
    // The oldest version has another name for what the broker creates topics from.
    producer.setCreateTopicKey("TBW102");
    producer.setNamesrvAddr(names);
    producer.setSendMsgTimeout(20_000);
    producer.start();
    // The broker tells the name server of itself some time after it listens.
    for (int round = 0; ; round++) {
      try {
        producer.send(message("first", "first"));
        return;
      } catch (MQClientException notYet) {
        if (round == 100) {
          throw notYet;
        }
        Thread.sleep(300);
      }
    }
  }

  private static List<String> rocket(Path home, String type, Path config) {
    List<String> command = Servers.java("rocketmq", "-Drocketmq.home.dir=" + home, "-Duser.home=" + home,
        type, "-c", config.toString());
    command.addAll(1, List.of("-XX:MaxDirectMemorySize=256m",
        "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED"));
    return command;
  }

  @AfterAll
  static void stop() throws Exception {
    if (producer != null) {
      producer.shutdown();
    }
    SERVERS.close();
  }

  private static DefaultMQPushConsumer consumer(String topic) throws Exception {
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("group-" + topic);
    consumer.setNamesrvAddr(names);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe(topic, "*");
    return consumer;
  }

  private static Message message(String topic, String body) {
    return new Message(topic, "tag", "key-" + body, body.getBytes());
  }

  private static Receiver.Span span(int component, String topic, String key) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == component
        && topic.equals(span.target()) && span.peer().endsWith("&key=key-" + key));
  }

  private static void check(String topic, String body, String header) throws InterruptedException {
    var sent = span(4, topic, body);
    var processed = span(5, topic, body);
    assertEquals("send", sent.name());
    assertEquals("process", processed.name());
    assertEquals(String.format("00-%s-%016x-01", sent.trace(), sent.id()), header);
    assertEquals(sent.id(), processed.parent());
    assertEquals(sent.trace(), processed.trace());
    assertTrue(sent.peer().startsWith("rocketmq://" + broker + "?partition="), sent::peer);
    assertTrue(processed.peer().startsWith("rocketmq://" + broker + "?partition="), processed::peer);
    assertTrue(processed.peer().contains("&group=group-" + topic + "&offset="), processed::peer);
    assertEquals(processed.id(), Servers.called("/rocket-" + body).parent());
  }

  private static Message take(BlockingQueue<MessageExt> from) throws InterruptedException {
    MessageExt message = from.poll(60, TimeUnit.SECONDS);
    assertNotNull(message);
    return message;
  }

  @Test
  void concurrently() throws Exception {
    BlockingQueue<MessageExt> taken = new LinkedBlockingQueue<>();
    producer.send(message("concurrent", "first"));
    DefaultMQPushConsumer consumer = consumer("concurrent");
    consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
      MessageExt message = messages.get(0);
      String body = new String(message.getBody());
      Servers.call(web + "/rocket-" + body);
      taken.add(message);
      boolean fails = body.equals("bad") && message.getReconsumeTimes() == 0;
      return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    });
    consumer.start();
    check("concurrent", "first", take(taken).getUserProperty("traceparent"));
    // The answer is not waited for.
    CompletableFuture<SendResult> answer = new CompletableFuture<>();
    producer.send(message("concurrent", "later"), new SendCallback() {
      @Override
      public void onSuccess(SendResult result) {
        answer.complete(result);
      }

      @Override
      public void onException(Throwable failure) {
        answer.completeExceptionally(failure);
      }
    });
    assertNotNull(answer.get(30, TimeUnit.SECONDS).getMsgId());
    check("concurrent", "later", take(taken).getUserProperty("traceparent"));
    producer.sendOneway(message("concurrent", "oneway"));
    check("concurrent", "oneway", take(taken).getUserProperty("traceparent"));
    producer.send(message("concurrent", "bad"));
    take(taken);
    var bad = span(5, "concurrent", "bad");
    assertTrue(bad.failed());
    assertEquals("RECONSUME_LATER", bad.error());
    consumer.shutdown();
  }

  @Test
  void orderly() throws Exception {
    BlockingQueue<MessageExt> taken = new LinkedBlockingQueue<>();
    producer.send(message("ordered", "ordered"));
    DefaultMQPushConsumer consumer = consumer("ordered");
    consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
      Servers.call(web + "/rocket-" + new String(messages.get(0).getBody()));
      taken.add(messages.get(0));
      return ConsumeOrderlyStatus.SUCCESS;
    });
    consumer.start();
    check("ordered", "ordered", take(taken).getUserProperty("traceparent"));
    consumer.shutdown();
  }

  @Test
  void b3AndBaggageGoFromMessageToMessage() throws Exception {
    BlockingQueue<MessageExt> first = new LinkedBlockingQueue<>();
    BlockingQueue<MessageExt> second = new LinkedBlockingQueue<>();
    var consumer = consumer("b3-first");
    var other = consumer("b3-second");
    try (Headers none = new Headers("b3multi+baggage")) {
      consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
        try {
          producer.send(message("b3-second", "second"));
        } catch (Exception failure) {
          throw new IllegalStateException(failure);
        }
        Servers.call(web + "/rocket-first");
        first.addAll(messages);
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
      });
      consumer.start();
      other.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
        second.addAll(messages);
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
      });
      other.start();
      Message own = message("b3-first", "first");
      own.putUserProperty("baggage", Headers.BAGGAGE);
      producer.send(own);
      Headers.checkB3(span(4, "b3-first", "first"), take(first).getProperties());
      var passedOn = span(4, "b3-second", "second");
      Headers.checkB3(passedOn, take(second).getProperties());
      var process = span(5, "b3-first", "first");
      assertEquals(span(4, "b3-first", "first").id(), process.parent());
      assertEquals(process.id(), passedOn.parent());
      assertEquals(passedOn.id(), span(5, "b3-second", "second").parent());
      assertEquals(process.trace(), span(5, "b3-second", "second").trace());
    } finally {
      consumer.shutdown();
      other.shutdown();
    }
  }

  @Test
  void ourOwnHeaderIsShort() throws Exception {
    BlockingQueue<MessageExt> taken = new LinkedBlockingQueue<>();
    var consumer = consumer("compact");
    try (Headers none = new Headers("compact")) {
      consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
        taken.addAll(messages);
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
      });
      consumer.start();
      producer.send(message("compact", "short"));
      var message = take(taken);
      assertEquals(23, message.getUserProperty("spanwise").length());
      assertEquals(null, message.getUserProperty("traceparent"));
      var sent = span(4, "compact", "short");
      assertEquals(sent.id(), span(5, "compact", "short").parent());
      assertEquals(sent.trace(), span(5, "compact", "short").trace());
    } finally {
      consumer.shutdown();
    }
  }
}
