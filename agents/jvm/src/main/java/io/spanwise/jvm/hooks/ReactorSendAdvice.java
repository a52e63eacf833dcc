package io.spanwise.jvm.hooks;

import io.spanwise.boot.Requests;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import reactor.netty.Connection;

/** A request of Reactor Netty's client has got a connection, perhaps from another request. */
public final class ReactorSendAdvice {
  private ReactorSendAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(
      @Advice.This Object request,
      @Advice.Argument(value = 0, typing = Assigner.Typing.DYNAMIC) Object connection) {
    Requests.sentBy(request, ((Connection) connection).channel());
  }
}
