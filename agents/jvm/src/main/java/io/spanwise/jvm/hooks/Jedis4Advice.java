package io.spanwise.jvm.hooks;

import io.spanwise.boot.Redis;
import java.net.Socket;
import net.bytebuddy.asm.Advice;
import redis.clients.jedis.CommandArguments;

/** Jedis 4 and later send a command. */
public final class Jedis4Advice {
  private Jedis4Advice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.This Object connection, @Advice.Argument(0) CommandArguments arguments) {
    Redis.sends(connection, arguments.getCommand());
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.This Object connection,
      @Advice.FieldValue("socket") Socket socket,
      @Advice.Thrown Throwable thrown) {
    Redis.sent(connection, socket, thrown);
  }
}
