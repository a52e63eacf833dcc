package io.spanwise.jvm.hooks;

import io.lettuce.core.protocol.CompleteableCommand;
import io.lettuce.core.protocol.RedisCommand;
import io.spanwise.boot.Hooks;
import io.spanwise.boot.Redis;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import net.bytebuddy.asm.Advice;

/** A command is given to Lettuce, and completes later. */
public final class LettuceAdvice {
  private LettuceAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(@Advice.Argument(0) RedisCommand<?, ?, ?> command) {
    return Hooks.cache && command != null ? Trace.send(Span.CACHE, command.getType().name(), null, null) : null;
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.Enter Span span,
      @Advice.Return RedisCommand<?, ?, ?> command,
      @Advice.Thrown Throwable thrown) {
    if (span == null) {
      return;
    }
    BiConsumer<Object, Throwable> completion = Redis.completion(span);
    if (command instanceof CompletableFuture) {
      ((CompletableFuture<?>) command).whenComplete(completion);
    } else if (thrown == null && command instanceof CompleteableCommand) {
      ((CompleteableCommand<?>) command).onComplete(completion);
    } else {
      completion.accept(null, thrown);
    }
  }
}
