package io.spanwise.jvm.hooks;

import io.spanwise.boot.Messages;
import net.bytebuddy.asm.Advice;
import org.apache.rocketmq.client.hook.ConsumeMessageContext;

/** A listener of RocketMQ has returned. */
public final class RocketAfterAdvice {
  private RocketAfterAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(0) ConsumeMessageContext context) {
    String status = context.getStatus();
    Messages.processed(context.isSuccess() ? null : status == null ? "failed" : status);
  }
}
