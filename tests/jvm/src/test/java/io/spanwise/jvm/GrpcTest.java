package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Calls of gRPC: unary ones and streams, through a real server. */
class GrpcTest {
  private static final Receiver RECEIVER = Receiver.ONE;
  private static final MethodDescriptor.Marshaller<String> TEXT = new MethodDescriptor.Marshaller<>() {
    @Override
    public InputStream stream(String value) {
      return new ByteArrayInputStream(value.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public String parse(InputStream stream) {
      try {
        return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
      } catch (IOException failure) {
        throw new IllegalStateException(failure);
      }
    }
  };
  private static Server server;
  private static ManagedChannel channel;

  private static MethodDescriptor<String, String> method(String name, MethodDescriptor.MethodType type) {
    return MethodDescriptor.<String, String>newBuilder()
        .setType(type).setFullMethodName("test.Shop/" + name)
        .setRequestMarshaller(TEXT).setResponseMarshaller(TEXT).build();
  }

  private static final MethodDescriptor<String, String> ORDER = method("Order", MethodDescriptor.MethodType.UNARY);
  private static final MethodDescriptor<String, String> LEAF = method("Leaf", MethodDescriptor.MethodType.UNARY);
  private static final MethodDescriptor<String, String> MISSING = method("Missing", MethodDescriptor.MethodType.UNARY);
  private static final MethodDescriptor<String, String> LIST =
      method("List", MethodDescriptor.MethodType.SERVER_STREAMING);
  private static final MethodDescriptor<String, String> CHAT =
      method("Chat", MethodDescriptor.MethodType.BIDI_STREAMING);

  private static String call(MethodDescriptor<String, String> method, String text) {
    return ClientCalls.blockingUnaryCall(channel, method, CallOptions.DEFAULT, text);
  }

  @BeforeAll
  static void start() throws IOException {
    server = NettyServerBuilder.forPort(0).addService(ServerServiceDefinition.builder("test.Shop")
        .addMethod(LEAF, ServerCalls.asyncUnaryCall((String text, StreamObserver<String> answer) -> {
          answer.onNext(text);
          answer.onCompleted();
        }))
        .addMethod(ORDER, ServerCalls.asyncUnaryCall((String text, StreamObserver<String> answer) -> {
          if (text.equals("refused")) {
            answer.onError(Status.FAILED_PRECONDITION.asRuntimeException());
            return;
          }
          // One that waits, and one that does not and is followed by another in its callback.
          String first = call(LEAF, text + "-1");
          ClientCalls.asyncUnaryCall(channel.newCall(LEAF, CallOptions.DEFAULT), text + "-2", new Answer(second ->
              ClientCalls.asyncUnaryCall(channel.newCall(LEAF, CallOptions.DEFAULT), text + "-3", new Answer(third -> {
                answer.onNext(first + second + third);
                answer.onCompleted();
              }))));
        }))
        .addMethod(LIST, ServerCalls.asyncServerStreamingCall((String text, StreamObserver<String> answer) -> {
          for (int each = 0; each < 3; each++) {
            answer.onNext(text);
            pause();
          }
          answer.onCompleted();
        }))
        .addMethod(CHAT, ServerCalls.asyncBidiStreamingCall((StreamObserver<String> answer) -> new StreamObserver<String>() {
          @Override
          public void onNext(String text) {
            answer.onNext(call(LEAF, text));
          }

          @Override
          public void onError(Throwable gone) {}

          @Override
          public void onCompleted() {
            answer.onCompleted();
          }
        }))
        .build()).build().start();
    channel = NettyChannelBuilder.forAddress("127.0.0.1", server.getPort()).usePlaintext().build();
  }

  @AfterAll
  static void stop() {
    channel.shutdownNow();
    server.shutdownNow();
  }

  private static void pause() {
    try {
      Thread.sleep(60);
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(interrupted);
    }
  }

  /** Takes the one answer of a call. */
  private record Answer(java.util.function.Consumer<String> next) implements StreamObserver<String> {
    @Override
    public void onNext(String text) {
      next.accept(text);
    }

    @Override
    public void onError(Throwable failure) {
      failure.printStackTrace();
    }

    @Override
    public void onCompleted() {}
  }

  private static List<Receiver.Span> all(int component, String method, String trace) {
    return RECEIVER.all().stream().filter(span -> span.component() == component
        && ("test.Shop/" + method).equals(span.target()) && span.trace().equals(trace)).toList();
  }

  /** The call of a test that has its method for itself. */
  private static Receiver.Span root(String method) throws InterruptedException {
    return RECEIVER.await(span ->
        span.component() == 6 && span.parent() == 0 && ("test.Shop/" + method).equals(span.target()));
  }

  @Test
  void unaryCallsOfManyTreesAtOnce() throws Exception {
    var pool = Executors.newFixedThreadPool(32);
    List<Callable<String>> tasks = new ArrayList<>();
    for (int tree = 0; tree < 200; tree++) {
      String text = "t" + tree;
      tasks.add(() -> call(ORDER, text));
    }
    for (var each : pool.invokeAll(tasks)) {
      assertTrue(each.get().matches("t(\\d+)-1t\\1-2t\\1-3"), each.get());
    }
    pool.shutdown();
    RECEIVER.awaitQuiet();
    int trees = 0;
    for (Receiver.Span root : RECEIVER.all()) {
      if (root.component() != 6 || root.parent() != 0 || !root.target().equals("test.Shop/Order") || root.failed()) {
        continue;
      }
      trees++;
      var orders = all(7, "Order", root.trace());
      assertEquals(1, orders.size());
      var order = orders.get(0);
      assertEquals(root.id(), order.parent());
      assertEquals("grpc", order.name());
      assertEquals("127.0.0.1:" + server.getPort(), root.peer());
      var calls = all(6, "Leaf", root.trace());
      var leaves = all(7, "Leaf", root.trace());
      assertEquals(3, calls.size());
      assertEquals(3, leaves.size());
      for (Receiver.Span each : calls) {
        assertEquals(order.id(), each.parent());
        assertEquals(1, leaves.stream().filter(leaf -> leaf.parent() == each.id()).count());
      }
    }
    assertEquals(200, trees);
  }

  @Test
  void aStatusIsTold() throws Exception {
    assertThrows(StatusRuntimeException.class, () -> call(ORDER, "refused"));
    var client = RECEIVER.await(span -> span.component() == 6 && span.failed() && "test.Shop/Order".equals(span.target()));
    assertEquals(9, client.status());
    var performed = RECEIVER.await(span -> span.component() == 7 && span.parent() == client.id());
    assertEquals(9, performed.status());
    assertThrows(StatusRuntimeException.class, () -> call(MISSING, "x"));
    assertEquals(12, root("Missing").status());
    assertEquals(12, RECEIVER.await(span -> span.component() == 7
        && "test.Shop/Missing".equals(span.target())).status());
  }

  @Test
  void aStreamEndsWhenTheCallCloses() throws Exception {
    var parts = ClientCalls.blockingServerStreamingCall(channel, LIST, CallOptions.DEFAULT, "part");
    int count = 0;
    while (parts.hasNext()) {
      assertEquals("part", parts.next());
      count++;
    }
    assertEquals(3, count);
    var client = RECEIVER.await(span ->
        span.component() == 6 && !span.failed() && "test.Shop/List".equals(span.target()));
    var performed = RECEIVER.await(span -> span.component() == 7 && span.parent() == client.id());
    assertTrue(client.durationNano() >= 170_000_000L, client::toString);
    assertTrue(performed.durationNano() >= 170_000_000L, performed::toString);
    assertFalse(client.failed());
    assertEquals(0, client.status());
  }

  @Test
  void messagesOfAStreamBelongToItsCall() throws Exception {
    CountDownLatch over = new CountDownLatch(1);
    var sent = ClientCalls.asyncBidiStreamingCall(channel.newCall(CHAT, CallOptions.DEFAULT), new StreamObserver<String>() {
      @Override
      public void onNext(String text) {}

      @Override
      public void onError(Throwable failure) {
        failure.printStackTrace();
      }

      @Override
      public void onCompleted() {
        over.countDown();
      }
    });
    for (int each = 0; each < 3; each++) {
      sent.onNext("m" + each);
      pause();
    }
    sent.onCompleted();
    assertTrue(over.await(10, TimeUnit.SECONDS));
    var client = root("Chat");
    var performed = RECEIVER.await(span -> span.component() == 7 && span.parent() == client.id());
    RECEIVER.awaitQuiet();
    var leaves = all(6, "Leaf", client.trace());
    assertEquals(3, leaves.size());
    leaves.forEach(leaf -> assertEquals(performed.id(), leaf.parent()));
    assertTrue(client.durationNano() >= 170_000_000L, client::toString);
  }

  @Test
  void aCallThatIsGivenUpEndsOnBothSides() throws Exception {
    assertThrows(StatusRuntimeException.class, () -> {
      var parts = ClientCalls.blockingServerStreamingCall(
          channel, LIST, CallOptions.DEFAULT.withDeadlineAfter(90, TimeUnit.MILLISECONDS), "late");
      while (parts.hasNext()) {
        parts.next();
      }
    });
    var client = RECEIVER.await(span -> span.component() == 6 && span.status() == 4);
    var performed = RECEIVER.await(span -> span.component() == 7 && span.parent() == client.id());
    assertTrue(performed.status() == 1 || performed.status() == 4, performed::toString);
    assertTrue(performed.failed());
  }
}
