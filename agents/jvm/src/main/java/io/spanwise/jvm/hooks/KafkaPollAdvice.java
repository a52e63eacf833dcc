package io.spanwise.jvm.hooks;

import io.spanwise.boot.Kafka;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.clients.consumer.ConsumerRecords;

/** A consumer of Kafka asks for records. */
public final class KafkaPollAdvice {
  private KafkaPollAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter() {
    Kafka.polls();
  }

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(@Advice.This Object consumer, @Advice.Return ConsumerRecords<?, ?> records) {
    if (records != null && !records.isEmpty()) {
      Kafka.polled(consumer, records);
    }
  }
}
