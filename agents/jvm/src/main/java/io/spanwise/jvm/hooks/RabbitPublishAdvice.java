package io.spanwise.jvm.hooks;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import io.spanwise.boot.Hooks;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Rabbit;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import java.util.HashMap;
import java.util.Map;
import net.bytebuddy.asm.Advice;

/** A message is published to RabbitMQ. Its properties cannot be changed, so others are sent. */
public final class RabbitPublishAdvice {
  private RabbitPublishAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(
      @Advice.This Channel channel,
      @Advice.Argument(0) String exchange,
      @Advice.Argument(1) String key,
      @Advice.Argument(value = 4, readOnly = false) AMQP.BasicProperties properties) {
    if (!Hooks.messaging) {
      return null;
    }
    Span span = Trace.send(
        Span.PRODUCER, "publish", Rabbit.destination(exchange, key), Rabbit.peer(channel.getConnection(), key));
    if (span != null) {
      AMQP.BasicProperties.Builder other =
          properties == null ? new AMQP.BasicProperties.Builder() : properties.builder();
      Map<String, Object> headers = new HashMap<>();
      if (properties != null && properties.getHeaders() != null) {
        headers.putAll(properties.getHeaders());
      }
      for (String header : Propagation.written()) {
        String value = Propagation.value(header, span);
        if (value != null && (Propagation.replaces(header) || !headers.containsKey(header))) {
          headers.put(header, value);
        }
      }
      properties = other.headers(headers).build();
    }
    return span;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter Span span, @Advice.Thrown Throwable thrown) {
    Trace.end(span, thrown);
  }
}
