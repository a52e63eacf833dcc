package io.spanwise.jvm.hooks;

import io.spanwise.boot.Kafka;
import java.util.Iterator;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** A program goes through polled records, one by one. */
public final class KafkaIteratorAdvice {
  private KafkaIteratorAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(
      @Advice.This Object records,
      @Advice.Return(readOnly = false) Iterator<ConsumerRecord<Object, Object>> all) {
    all = Kafka.iterator(records, all);
  }
}
