package io.spanwise.jvm.hooks;

import io.spanwise.boot.Redis;
import net.bytebuddy.asm.Advice;

/** Jedis reads an answer. */
public final class JedisAnswerAdvice {
  private JedisAnswerAdvice() {}

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.This Object connection, @Advice.Thrown Throwable thrown) {
    Redis.answered(connection, thrown);
  }
}
