package io.spanwise.jvm.hooks;

import io.spanwise.boot.Context;
import io.spanwise.boot.Work;
import net.bytebuddy.asm.Advice;
import reactor.core.CoreSubscriber;

/** A request of Reactor Netty's client is subscribed to. The subscriber knows what it belongs to. */
public final class ReactorSubscribeAdvice {
  private ReactorSubscribeAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static int enter(@Advice.Argument(0) CoreSubscriber<?> subscriber) {
    Object context = subscriber.currentContext().getOrDefault("io.spanwise.context", null);
    return context instanceof Context ? Work.enter((Context) context) : Work.NONE;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(@Advice.Enter int entered) {
    Work.leave(entered);
  }
}
