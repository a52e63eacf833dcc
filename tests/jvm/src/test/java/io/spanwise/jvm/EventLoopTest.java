package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.server.reactive.ReactorHttpHandlerAdapter;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.reactive.config.EnableWebFlux;
import org.springframework.web.reactive.function.client.WebClient;
import org.springframework.web.reactive.function.server.RequestPredicates;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import org.springframework.web.server.adapter.WebHttpHandlerBuilder;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.netty.DisposableServer;
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;

/** Requests that go through event loops. Each span's parent is checked, with many at once. */
class EventLoopTest {
  private static final Receiver RECEIVER = Receiver.ONE;
  private static final int AT_ONCE = 64;
  private static final int TREES = 200;

  private static NettyEcho netty;
  private static DisposableServer reactor;
  private static DisposableServer flux;
  private static String reactorAt;
  private static String fluxAt;
  private static AnnotationConfigApplicationContext spring;
  /** Few connections, so that requests wait for those of others. */
  private static final HttpClient CLIENT =
      HttpClient.create(ConnectionProvider.builder("few").maxConnections(16).pendingAcquireMaxCount(-1).build());
  private static final WebClient WEB = WebClient.create();
  /** Few threads, so that tasks of many requests wait in its queue. */
  private static final ExecutorService POOL = Executors.newFixedThreadPool(8);
  private static final java.net.http.HttpClient ASKS = java.net.http.HttpClient.newHttpClient();
  /** What all requests wait for, which belongs to none of them. */
  private static final Mono<String> SHARED =
      Mono.delay(Duration.ofMillis(5)).map(String::valueOf).flux().share().next();

  private static Mono<String> get(String url) {
    return WEB.get().uri(URI.create(url)).retrieve().bodyToMono(String.class);
  }

  private static Mono<String> getByReactor(String url) {
    return CLIENT.get().uri(url).responseContent().aggregate().asString();
  }

  private static String fetch(String url) {
    try {
      return ask(url);
    } catch (Exception failure) {
      throw new IllegalStateException(failure);
    }
  }

  /** A stage of a future, and a task that a pool is given. */
  private static Mono<String> byPools(String id) {
    CompletableFuture<String> staged = CompletableFuture.supplyAsync(() -> netty.at + "/leaf/" + id, POOL)
        .thenApplyAsync(leaf -> fetch(leaf + "/7"), POOL);
    Future<String> given = POOL.submit(() -> fetch(netty.at + "/leaf/" + id + "/8"));
    return Mono.fromFuture(staged)
        .flatMap(text -> Mono.fromCallable(given::get).subscribeOn(Schedulers.boundedElastic()));
  }

  @RestController
  static class Trees {
    /** Two calls at once, one after them, another one after a change of threads, and two by pools. */
    @GetMapping("/tree/{id}")
    Mono<String> tree(@PathVariable("id") String id) {
      return Mono.zip(get(netty.at + "/leaf/" + id + "/1"), get(netty.at + "/leaf/" + id + "/2"))
          .flatMap(both -> getByReactor(reactorAt + "/mid/" + id))
          .publishOn(Schedulers.parallel())
          .flatMap(mid -> SHARED)
          .flatMap(shared -> get(netty.at + "/leaf/" + id + "/4"))
          .flatMapMany(last -> Flux.range(5, 2).flatMap(each -> get(netty.at + "/leaf/" + id + "/" + each)))
          .collectList().flatMap(all -> byPools(id)).map(last -> "tree");
    }
  }

  @Configuration(proxyBeanMethods = false)
  @EnableWebFlux
  static class Config {
    @Bean
    Trees trees() {
      return new Trees();
    }

    @Bean
    RouterFunction<ServerResponse> functions() {
      return RouterFunctions.route(
          RequestPredicates.GET("/function/{id}"),
          request -> get(netty.at + "/leaf/f/" + request.pathVariable("id"))
              .flatMap(text -> ServerResponse.ok().bodyValue("function")));
    }
  }

  @BeforeAll
  static void start() throws Exception {
    netty = new NettyEcho();
    reactor = HttpServer.create().host("127.0.0.1").port(0).handle((request, response) -> {
      if (request.uri().startsWith("/none")) {
        return response.status(503).send();
      }
      String id = request.uri().substring("/mid/".length());
      return response.sendString(
          Mono.delay(Duration.ofMillis(2)).then(getByReactor(netty.at + "/leaf/" + id + "/3")));
    }).bindNow();
    reactorAt = "http://127.0.0.1:" + reactor.port();
    spring = new AnnotationConfigApplicationContext(Config.class);
    flux = HttpServer.create().host("127.0.0.1").port(0)
        .handle(new ReactorHttpHandlerAdapter(WebHttpHandlerBuilder.applicationContext(spring).build()))
        .bindNow();
    fluxAt = "http://127.0.0.1:" + flux.port();
  }

  @AfterAll
  static void stop() {
    flux.disposeNow(Duration.ofSeconds(2));
    reactor.disposeNow(Duration.ofSeconds(2));
    spring.close();
    netty.close();
    POOL.shutdown();
  }

  private static String ask(String url, String... headers) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(url)).version(java.net.http.HttpClient.Version.HTTP_1_1);
    if (headers.length > 0) {
      request.headers(headers);
    }
    return ASKS.send(request.build(), HttpResponse.BodyHandlers.ofString()).body();
  }

  private static Receiver.Span one(int component, String target) throws InterruptedException {
    return RECEIVER.await(span -> span.component() == component && target.equals(span.target()));
  }

  @Test
  void everyLinkOfManyTreesAtOnceIsRight() throws Exception {
    var client = java.net.http.HttpClient.newHttpClient();
    var pool = Executors.newFixedThreadPool(AT_ONCE);
    List<Callable<String>> tasks = new ArrayList<>();
    for (int tree = 0; tree < TREES; tree++) {
      var request = HttpRequest.newBuilder(URI.create(fluxAt + "/tree/" + tree))
          .version(java.net.http.HttpClient.Version.HTTP_1_1).build();
      tasks.add(() -> client.send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
    for (Future<String> each : pool.invokeAll(tasks)) {
      assertEquals("tree", result(each));
    }
    pool.shutdown();
    assertTrue(pool.awaitTermination(1, TimeUnit.MINUTES));
    RECEIVER.awaitQuiet();

    Map<String, Receiver.Span> spans = new HashMap<>();
    for (Receiver.Span span : RECEIVER.all()) {
      if (span.target() != null && span.target().matches("/(tree|mid|leaf)/[0-9].*")) {
        var other = spans.put(span.component() + span.target(), span);
        assertEquals(null, other, () -> "twice: " + span);
      }
    }
    int links = 0;
    List<String> wrong = new ArrayList<>();
    for (int tree = 0; tree < TREES; tree++) {
      links += link(wrong, spans, "1/tree/" + tree, "2/tree/" + tree);
      for (int leaf : new int[] {1, 2, 4, 5, 6, 7, 8}) {
        links += link(wrong, spans, "2/leaf/" + tree + "/" + leaf, "1/tree/" + tree);
        links += link(wrong, spans, "1/leaf/" + tree + "/" + leaf, "2/leaf/" + tree + "/" + leaf);
      }
      links += link(wrong, spans, "2/mid/" + tree, "1/tree/" + tree);
      links += link(wrong, spans, "1/mid/" + tree, "2/mid/" + tree);
      links += link(wrong, spans, "2/leaf/" + tree + "/3", "1/mid/" + tree);
      links += link(wrong, spans, "1/leaf/" + tree + "/3", "2/leaf/" + tree + "/3");
      assertEquals(0, spans.get("2/tree/" + tree).parent());
    }
    System.out.printf("figure jvm.link_recall %.5f 1  # %d of %d%n",
        (double) (links - wrong.size()) / links, links - wrong.size(), links);
    assertTrue(wrong.isEmpty(), () -> wrong.size() + " wrong: " + wrong.subList(0, Math.min(10, wrong.size())));
    assertEquals(TREES * 20, spans.size());
  }

  private static String result(Future<String> future) throws InterruptedException {
    try {
      return future.get();
    } catch (ExecutionException failure) {
      throw new AssertionError(failure);
    }
  }

  private static int link(List<String> wrong, Map<String, Receiver.Span> spans, String child, String parent) {
    var of = spans.get(child);
    var to = spans.get(parent);
    assertNotNull(of, child);
    assertNotNull(to, parent);
    if (of.parent() != to.id() || !of.trace().equals(to.trace())) {
      wrong.add(child + " of " + parent);
    }
    return 1;
  }

  @Test
  void routesOfWebFlux() throws Exception {
    assertEquals("function", ask(fluxAt + "/function/7"));
    assertEquals("/function/{id}", one(1, "/function/7").peer());
    assertEquals(one(1, "/function/7").id(), one(2, "/leaf/f/7").parent());
    assertEquals("tree", ask(fluxAt + "/tree/routed"));
    assertEquals("/tree/{id}", one(1, "/tree/routed").peer());
  }

  @Test
  void failuresAndClosedConnections() throws Exception {
    ask(netty.at + "/fails?secret=1");
    assertEquals(503, one(1, "/fails").status());
    assertTrue(one(1, "/fails").failed());
    ask(reactorAt + "/none");
    assertEquals(503, one(1, "/none").status());
    Mono<String> closed = getByReactor(netty.at + "/closes").onErrorReturn("closed");
    assertEquals("closed", closed.block());
    assertEquals("connection closed", one(1, "/closes").error());
    assertEquals("connection closed", one(2, "/closes").error());
  }

  @Test
  void baggageIsPassedOn() throws Exception {
    String answer = ask(netty.at + "/headers", "baggage", "user=7");
    assertTrue(answer.contains("baggage: user=7"), answer);
    String last = ask(reactorAt + "/mid/b", "baggage", "tenant=x,plan=y");
    assertTrue(last.contains("baggage: tenant=x,plan=y"), last);
    assertEquals(one(1, "/mid/b").id(), one(2, "/leaf/b/3").parent());
  }
}
