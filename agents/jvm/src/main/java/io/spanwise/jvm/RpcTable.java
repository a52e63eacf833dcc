package io.spanwise.jvm;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.namedOneOf;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.util.List;

/** The hooks of gRPC and of Dubbo. */
final class RpcTable {
  private static final String GRPC = "io.grpc.internal.";

  private RpcTable() {}

  static void add(List<Hook> all) {
    all.add(new Hook("rpc: gRPC client", named(GRPC + "ClientCallImpl"),
        named("start").and(takesArguments(2)), "GrpcStartAdvice"));
    all.add(new Hook("rpc: gRPC client", named(GRPC + "ClientCallImpl"),
        named("closeObserver").and(takesArguments(3)), "GrpcClosedAdvice"));
    all.add(new Hook("rpc: gRPC client", named(GRPC + "ClientCallImpl$ClientStreamListenerImpl"),
        namedOneOf("headersRead", "messagesAvailable", "closed", "onReady"),
        "GrpcClientCallbackAdvice"));
    all.add(new Hook("rpc: gRPC tasks", named(GRPC + "SerializingExecutor"),
        named("execute").and(takesArguments(1)), "TaskAdvice"));
    all.add(new Hook("rpc: gRPC server", named(GRPC + "ServerImpl$ServerTransportListenerImpl"),
        named("streamCreated").and(takesArguments(3)), "GrpcStreamAdvice"));
    all.add(new Hook("rpc: gRPC server",
        named(GRPC + "ServerImpl$JumpToApplicationThreadServerStreamListener"),
        namedOneOf("messagesAvailable", "halfClosed", "onReady"), "GrpcServerCallbackAdvice"));
    all.add(new Hook("rpc: gRPC server",
        named(GRPC + "ServerImpl$JumpToApplicationThreadServerStreamListener"),
        named("closed").and(takesArguments(1)), "GrpcServerClosedAdvice"));
    all.add(new Hook("rpc: gRPC server",
        namedOneOf(
            GRPC + "AbstractServerStream",
            "io.grpc.inprocess.InProcessTransport$InProcessStream$InProcessServerStream"),
        named("close").and(takesArguments(2)), "GrpcAnswerAdvice"));

    all.add(new Hook("rpc: Dubbo consumer", named("org.apache.dubbo.rpc.protocol.AbstractInvoker"),
        named("invoke").and(takesArguments(1)), "DubboCallAdvice"));
    all.add(new Hook("rpc: Dubbo provider", named("org.apache.dubbo.rpc.proxy.AbstractProxyInvoker"),
        named("invoke").and(takesArguments(1)), "DubboPerformAdvice"));
  }
}
