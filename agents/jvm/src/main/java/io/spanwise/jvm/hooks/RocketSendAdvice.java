package io.spanwise.jvm.hooks;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Messages;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Rocket;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import org.apache.rocketmq.client.impl.CommunicationMode;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** A message is sent to RocketMQ, each time that it is tried. */
public final class RocketSendAdvice {
  private RocketSendAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(
      @Advice.FieldValue("mQClientFactory") MQClientInstance client,
      @Advice.Argument(0) Message message,
      @Advice.Argument(1) MessageQueue queue,
      @Advice.Argument(2) CommunicationMode mode,
      @Advice.Argument(value = 3, readOnly = false) SendCallback callback,
      @Advice.Local("sent") Messages.Sent sent) {
    if (!Hooks.messaging || message == null || queue == null) {
      return null;
    }
    String broker = client.findBrokerAddressInPublish(queue.getBrokerName());
    String peer = Rocket.peer(broker, queue.getQueueId());
    Span span = Trace.send(Span.PRODUCER, "send", message.getTopic(), peer);
    if (span == null) {
      return null;
    }
    for (String header : Propagation.written()) {
      String value = Propagation.value(header, span);
      if (value != null && (Propagation.replaces(header) || message.getUserProperty(header) == null)) {
        message.putUserProperty(header, value);
      }
    }
    if (mode == CommunicationMode.ASYNC && callback != null) {
      sent = Messages.Sent.of(span, message.getKeys());
      callback = sent.callback(SendCallback.class, callback);
      return null;
    }
    return span;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.Enter Span span,
      @Advice.Argument(0) Message message,
      @Advice.Argument(1) MessageQueue queue,
      @Advice.FieldValue("mQClientFactory") MQClientInstance client,
      @Advice.Local("sent") Messages.Sent sent,
      @Advice.Return SendResult result,
      @Advice.Thrown Throwable thrown) {
    if (sent != null) {
      sent.thrown(thrown);
    }
    if (span != null) {
      String peer = Rocket.peer(client.findBrokerAddressInPublish(queue.getBrokerName()), queue.getQueueId());
      if (result != null) {
        peer = Rocket.withMessage(peer, result.getQueueOffset(), result.getMsgId());
      }
      span.peer(Rocket.withKeys(peer, message.getKeys()));
      Trace.end(span, thrown);
    }
  }
}
