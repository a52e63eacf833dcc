package io.spanwise.jvm.hooks;

import io.netty.channel.ChannelHandlerContext;
import io.spanwise.boot.Connection;
import io.spanwise.boot.Work;
import net.bytebuddy.asm.Advice;

/** What a connection has read is handed to the program. */
public final class NettyFireAdvice {
  private NettyFireAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static int enter(@Advice.Argument(0) ChannelHandlerContext context) {
    return Connection.enter(context.channel());
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter int entered) {
    Work.leave(entered);
  }
}
