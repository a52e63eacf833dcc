package io.spanwise.jvm.hooks;

import io.spanwise.boot.Connection;
import net.bytebuddy.asm.Advice;
import reactor.netty.http.server.HttpServerRequest;
import reactor.util.context.Context;

/** What Reactor Netty's server tells its subscribers: on behalf of which request they work. */
public final class ReactorContextAdvice {
  private ReactorContextAdvice() {}

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(@Advice.This Object operations, @Advice.Return(readOnly = false) Context context) {
    if (operations instanceof HttpServerRequest && operations instanceof reactor.netty.Connection) {
      io.spanwise.boot.Context request =
          Connection.context(((reactor.netty.Connection) operations).channel());
      if (request != null && context != null && !context.hasKey("io.spanwise.context")) {
        context = context.put("io.spanwise.context", request);
      }
    }
  }
}
