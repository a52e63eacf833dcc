package io.spanwise.jvm.hooks;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import io.spanwise.boot.Hooks;
import io.spanwise.boot.Messages;
import io.spanwise.boot.Rabbit;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import java.util.Map;
import net.bytebuddy.asm.Advice;

/** A program asks RabbitMQ for one message. */
public final class RabbitGetAdvice {
  private RabbitGetAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(@Advice.This Channel channel, @Advice.Argument(0) String queue) {
    return Hooks.messaging
        ? Trace.send(Span.CONSUMER, "receive", queue, Rabbit.peer(channel.getConnection(), null))
        : null;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.Enter Span span,
      @Advice.Return GetResponse response,
      @Advice.Thrown Throwable thrown) {
    Map<String, Object> headers =
        response == null || response.getProps() == null ? null : response.getProps().getHeaders();
    Messages.received(span, response != null, headers, thrown);
  }
}
