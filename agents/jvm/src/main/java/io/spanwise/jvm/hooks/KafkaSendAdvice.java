package io.spanwise.jvm.hooks;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Kafka;
import io.spanwise.boot.Messages;
import io.spanwise.boot.Propagation;
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
    String[] headers = Propagation.written();
    byte[][] values = new byte[headers.length][];
    for (int at = 0; at < headers.length; at++) {
      String value = Propagation.value(headers[at], span);
      if (value != null && (Propagation.replaces(headers[at]) || record.headers().lastHeader(headers[at]) == null)) {
        values[at] = value.getBytes(StandardCharsets.ISO_8859_1);
      }
    }
    Messages.Sent sent = Messages.Sent.of(span, record.key());
    callback = sent.callback(Callback.class, callback);
    try {
      for (int at = 0; at < headers.length; at++) {
        if (values[at] != null) {
          record.headers().remove(headers[at]).add(headers[at], values[at]);
        }
      }
    } catch (IllegalStateException sentBefore) {
      // Its headers cannot be changed any more, so another record is sent.
      record = new ProducerRecord<>(
          record.topic(), record.partition(), record.timestamp(), record.key(), record.value(), record.headers());
      for (int at = 0; at < headers.length; at++) {
        if (values[at] != null) {
          record.headers().remove(headers[at]).add(headers[at], values[at]);
        }
      }
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
