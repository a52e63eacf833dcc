package io.spanwise.jvm.hooks;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Rocket;
import java.util.List;
import java.util.Map;
import net.bytebuddy.asm.Advice;
import org.apache.rocketmq.client.hook.ConsumeMessageContext;
import org.apache.rocketmq.common.message.MessageExt;

/** A listener of RocketMQ is about to get messages, most often one. */
public final class RocketBeforeAdvice {
  private RocketBeforeAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(@Advice.Argument(0) ConsumeMessageContext context) {
    List<MessageExt> messages = context.getMsgList();
    if (!Hooks.messaging || messages == null || messages.isEmpty()) {
      return;
    }
    MessageExt first = messages.get(0);
    String peer = Rocket.peer(first.getStoreHost(), first.getQueueId(), context.getConsumerGroup());
    // Several have several producers, of which none is the parent.
    Map<String, String> properties = null;
    if (messages.size() == 1) {
      properties = first.getProperties();
      peer = Rocket.withKeys(Rocket.withMessage(peer, first.getQueueOffset(), first.getMsgId()), first.getKeys());
    } else {
      peer = Rocket.withCount(peer, messages.size());
    }
    Rocket.process(first.getTopic(), peer, properties);
  }
}
