package io.spanwise.jvm.hooks;

import io.spanwise.boot.Redis;
import java.net.Socket;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** Jedis 2 and 3 send a command. */
public final class JedisAdvice {
  private JedisAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(
      @Advice.This Object connection,
      @Advice.Argument(value = 0, typing = Assigner.Typing.DYNAMIC) Object command) {
    Redis.sends(connection, command);
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.This Object connection,
      @Advice.FieldValue("socket") Socket socket,
      @Advice.Thrown Throwable thrown) {
    Redis.sent(connection, socket, thrown);
  }
}
