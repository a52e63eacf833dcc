package io.spanwise.jvm.hooks;

import io.spanwise.boot.Kafka;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** A program goes through polled records, of one topic. */
public final class KafkaIterableAdvice {
  private KafkaIterableAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(
      @Advice.This Object records,
      @Advice.Return(readOnly = false) Iterable<ConsumerRecord<Object, Object>> all) {
    all = Kafka.iterable(records, all);
  }
}
