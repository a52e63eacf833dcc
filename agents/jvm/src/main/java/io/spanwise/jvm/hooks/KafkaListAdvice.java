package io.spanwise.jvm.hooks;

import io.spanwise.boot.Kafka;
import java.util.List;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** A program goes through polled records, of one partition. */
public final class KafkaListAdvice {
  private KafkaListAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(
      @Advice.This Object records,
      @Advice.Return(readOnly = false) List<ConsumerRecord<Object, Object>> all) {
    all = Kafka.list(records, all);
  }
}
