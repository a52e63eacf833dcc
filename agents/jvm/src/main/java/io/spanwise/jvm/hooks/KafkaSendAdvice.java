package io.spanwise.jvm.hooks;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Kafka;
import io.spanwise.boot.Messages;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import java.nio.charset.StandardCharsets;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A record is sent to Kafka. It is under way until the broker has acknowledged it. */
public final class KafkaSendAdvice {
  private KafkaSendAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Messages.Sent enter(
      @Advice.This Object producer,
      @Advice.Argument(value = 0, readOnly = false) ProducerRecord<Object, Object> record,
      @Advice.Argument(value = 1, readOnly = false) Callback callback) {
    if (!Hooks.messaging || record == null) {
      return null;
    }
    Span span = Trace.send(Span.PRODUCER, "send", record.topic(), Kafka.peer(producer));
    if (span == null) {
      return null;
    }
    byte[] header = Trace.traceparent(span).getBytes(StandardCharsets.ISO_8859_1);
    Messages.Sent sent = Messages.Sent.of(span, record.key());
    callback = sent.callback(Callback.class, callback);
    try {
      record.headers().remove(Messages.HEADER).add(Messages.HEADER, header);
    } catch (IllegalStateException sentBefore) {
      // Its headers cannot be changed any more, so another record is sent.
      record = new ProducerRecord<>(
          record.topic(), record.partition(), record.timestamp(), record.key(), record.value(), record.headers());
      record.headers().remove(Messages.HEADER).add(Messages.HEADER, header);
    }
    return sent;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter Messages.Sent sent, @Advice.Thrown Throwable thrown) {
    if (sent != null) {
      sent.thrown(thrown);
    }
  }
}
