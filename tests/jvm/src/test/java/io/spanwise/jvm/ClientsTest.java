package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import okhttp3.Call;
import okhttp3.Callback;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.Response;
import org.apache.http.client.methods.HttpGet;
import org.apache.http.util.EntityUtils;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Libraries that send requests. The build runs it with their oldest and newest versions. */
class ClientsTest {
  /** What a proxy passes on, or another library has written further out. */
  private static final String STALE = "00-463ac35c9f6413ad48485a3953bb6124-a2fb4a1d1a96d312-01";
  private static HttpServer server;
  private static String at;

  /** Calls a URL, and returns the body of the answer. */
  interface Client {
    String get(String url) throws Exception;
  }

  @BeforeAll
  static void start() throws IOException {
    server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.createContext("/", exchange -> {
      String path = exchange.getRequestURI().getPath();
      List<String> headers = exchange.getRequestHeaders().get("traceparent");
      byte[] body = String.valueOf(headers).getBytes();
      if (path.startsWith("/moved-")) {
        exchange.getResponseHeaders().add("location", "/to-" + path.substring(7));
      }
      int status = path.startsWith("/moved-") ? 302 : path.startsWith("/bad-") ? 500 : 200;
      exchange.sendResponseHeaders(status, body.length);
      exchange.getResponseBody().write(body);
      exchange.close();
    });
    server.start();
    at = "http://127.0.0.1:" + server.getAddress().getPort();
  }

  @AfterAll
  static void stop() {
    server.stop(0);
  }

  private static Receiver.Span client(String path) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == 2 && path.equals(span.target()));
  }

  private static void check(String name, Client client) throws Exception {
    // The header of each request names its own span, and there is one.
    List<String> ids = new ArrayList<>();
    for (String path : new String[] {"/first-" + name, "/bad-" + name, "/to-" + name}) {
      String body = client.get(at + (path.startsWith("/to-") ? "/moved-" + name : path) + "?q=secret");
      var span = client(path);
      assertEquals(
          String.format("[00-%s-%016x-01]", span.trace(), span.id()), body, () -> name + path);
      assertEquals("GET", span.name());
      assertEquals(at.substring("http://".length()), span.peer());
      assertEquals(path.startsWith("/bad-") ? 500 : 200, span.status());
      assertEquals(path.startsWith("/bad-"), span.failed());
      ids.add(body);
    }
    assertEquals(3, ids.stream().distinct().count());
    assertEquals(302, client("/moved-" + name).status());
    // Nobody listens on port 1.
    assertThrows(IOException.class, () -> client.get("http://127.0.0.1:1/none-" + name));
    assertTrue(client("/none-" + name).failed());
    assertEquals(1, Receiver.ONE.all().stream()
        .filter(span -> ("/first-" + name).equals(span.target())).count());
    assertTrue(Receiver.ONE.all().stream().noneMatch(span -> span.toString().contains("secret")));
  }

  @Test
  void okHttp() throws Exception {
    OkHttpClient client = new OkHttpClient();
    check("ok", url -> {
      try (Response response = client.newCall(new Request.Builder().url(url).header("traceparent", STALE).build()).execute()) {
        return response.body().string();
      }
    });
    check("ok-later", url -> {
      CompletableFuture<String> body = new CompletableFuture<>();
      client.newCall(new Request.Builder().url(url).header("traceparent", STALE).build()).enqueue(new Callback() {
        @Override
        public void onFailure(Call call, IOException failure) {
          body.completeExceptionally(failure);
        }

        @Override
        public void onResponse(Call call, Response response) throws IOException {
          body.complete(response.body().string());
        }
      });
      try {
        return body.get();
      } catch (java.util.concurrent.ExecutionException failure) {
        throw (IOException) failure.getCause();
      }
    });
  }

  @Test
  void apache4() throws Exception {
    try (var client = org.apache.http.impl.client.HttpClients.createDefault()) {
      check("apache4", url -> {
        HttpGet request = new HttpGet(url);
        request.setHeader("traceparent", STALE);
        try (var response = client.execute(request)) {
          return EntityUtils.toString(response.getEntity());
        }
      });
    }
  }

  @Test
  void apache5() throws Exception {
    try (var client = org.apache.hc.client5.http.impl.classic.HttpClients.createDefault()) {
      check("apache5", url -> {
        var request = new org.apache.hc.client5.http.classic.methods.HttpGet(url);
        request.setHeader("traceparent", STALE);
        return client.execute(request, response ->
            org.apache.hc.core5.http.io.entity.EntityUtils.toString(response.getEntity()));
      });
    }
  }

  /** Those of the JDK follow redirects inside of one request. */
  @Test
  void headersOfTheJdksClientsAreReplaced() throws Exception {
    URI first = URI.create(at + "/java-http");
    String body = HttpClient.newHttpClient().send(
        HttpRequest.newBuilder(first).header("traceparent", STALE).header("own", "kept").build(),
        HttpResponse.BodyHandlers.ofString()).body();
    var span = client("/java-http");
    assertEquals(String.format("[00-%s-%016x-01]", span.trace(), span.id()), body);
    var connection = URI.create(at + "/url-connection").toURL().openConnection();
    connection.setRequestProperty("traceparent", STALE);
    body = new String(connection.getInputStream().readAllBytes());
    span = client("/url-connection");
    assertEquals(String.format("[00-%s-%016x-01]", span.trace(), span.id()), body);
  }
}
