package io.spanwise.jvm.hooks;

import io.netty.channel.ChannelHandlerContext;
import io.netty.handler.codec.http.HttpObjectDecoder;
import io.spanwise.boot.Connection;
import net.bytebuddy.asm.Advice;

/** A connection of Netty is closed. What was read last has been handed on. */
public final class NettyClosedAdvice {
  private NettyClosedAdvice() {}

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.This Object decoder, @Advice.Argument(0) ChannelHandlerContext context) {
    if (decoder instanceof HttpObjectDecoder) {
      Connection connection = Connection.known(context.channel());
      if (connection != null) {
        connection.closes();
      }
    }
  }
}
