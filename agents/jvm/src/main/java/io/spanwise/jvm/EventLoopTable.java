package io.spanwise.jvm;

import static net.bytebuddy.matcher.ElementMatchers.isConstructor;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.namedOneOf;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.util.List;

/** The hooks of Netty and of Reactor Netty, whose threads serve whoever comes. */
final class EventLoopTable {
  private static final String HTTP = "io.netty.handler.codec.http.";
  private static final String CLIENT = "reactor.netty.http.client.HttpClientConnect$";

  private EventLoopTable() {}

  static void add(List<Hook> all) {
    all.add(new Hook("netty: codec", named(HTTP + "HttpObjectDecoder"),
        namedOneOf("decode", "decodeLast").and(takesArguments(3)), "NettyDecodeAdvice"));
    all.add(new Hook("netty: codec", named(HTTP + "HttpObjectEncoder"),
        named("encode").and(takesArguments(3)), "NettyEncodeAdvice"));
    all.add(new Hook("netty: reading", named("io.netty.handler.codec.ByteToMessageDecoder"),
        named("fireChannelRead")
            .and(takesArgument(1, named("io.netty.handler.codec.CodecOutputList"))),
        "NettyFireAdvice"));
    all.add(new Hook("netty: closing", named("io.netty.handler.codec.ByteToMessageDecoder"),
        named("channelInactive").and(takesArguments(1)), "NettyClosedAdvice"));
    all.add(new Hook("netty: tasks", named("io.netty.util.concurrent.SingleThreadEventExecutor"),
        named("execute").and(takesArguments(1)).and(takesArgument(0, Runnable.class)), "TaskAdvice"));
    all.add(new Hook("reactor: subscription", named(CLIENT + "MonoHttpConnect"),
        named("subscribe").and(takesArguments(1)), "ReactorSubscribeAdvice"));
    all.add(new Hook("reactor: request", named(CLIENT + "HttpClientHandler"),
        isConstructor(), "ReactorRequestAdvice"));
    all.add(new Hook("reactor: request", named(CLIENT + "HttpClientHandler"),
        named("requestWithBody").and(takesArguments(1)), "ReactorSendAdvice"));
    all.add(new Hook("reactor: server?",
        namedOneOf(
            "reactor.netty.channel.ChannelOperations",
            "reactor.netty.http.server.HttpServerOperations"),
        named("currentContext").and(takesArguments(0)), "ReactorContextAdvice"));
  }
}
