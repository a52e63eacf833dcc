package io.spanwise.jvm.hooks;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Consumer;
import com.rabbitmq.client.Envelope;
import io.spanwise.boot.Hooks;
import io.spanwise.boot.Messages;
import io.spanwise.boot.Rabbit;
import net.bytebuddy.asm.Advice;

/** RabbitMQ's client passes a message to the thread that hands it to the program. */
public final class RabbitDeliverAdvice {
  private RabbitDeliverAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(
      @Advice.FieldValue("channel") Channel channel,
      @Advice.Argument(value = 0, readOnly = false) Consumer consumer,
      @Advice.Argument(2) Envelope envelope,
      @Advice.Argument(3) AMQP.BasicProperties properties) {
    if (!Hooks.messaging) {
      return;
    }
    consumer = Messages.delivery(
        Consumer.class,
        consumer,
        "handleDelivery",
        Rabbit.destination(envelope.getExchange(), envelope.getRoutingKey()),
        Rabbit.peer(channel.getConnection(), envelope.getRoutingKey()),
        properties == null ? null : properties.getHeaders());
  }
}
