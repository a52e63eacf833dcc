import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientRequest;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.core.net.PemTrustOptions;
import io.vertx.core.AbstractVerticle;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Promise;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/** Vert.x: two event loops on both sides, as on two processors. */
public final class Reactive extends AbstractVerticle {
  private static final int LOOPS = 2;
  private static final int POOL = 1024;
  private HttpClient client;

  private Future<Buffer> call(String token) {
    return client
        .request(HttpMethod.GET, "/leaf/" + token)
        .compose(HttpClientRequest::send)
        .compose(HttpClientResponse::body);
  }

  /** A timer, in the variant that has timers. */
  private Future<Void> pause() {
    if (!Program.STYLE.equals("timers")) {
      return Future.succeededFuture();
    }
    Promise<Void> promise = Promise.promise();
    vertx.setTimer(1 + ThreadLocalRandom.current().nextInt(2), timer -> promise.complete());
    return promise.future();
  }

  private void serve(HttpServerRequest request) {
    List<String> made = Program.tokens();
    Program.work(request.path().getBytes());
    Future<Buffer> replies = pause().compose(nothing -> Program.PARALLEL ? atOnce(made) : inTurn(made));
    replies.onComplete(done -> {
      if (done.failed()) {
        done.cause().printStackTrace();
        request.response().setStatusCode(500).end();
        return;
      }
      Program.note(request.path(), made);
      request.response().end(Buffer.buffer(Program.work(done.result().getBytes())));
    });
  }

  private Future<Buffer> inTurn(List<String> made) {
    return call(made.get(0))
        .compose(first -> pause().map(first))
        .compose(first -> call(made.get(1)).map(second -> Buffer.buffer().appendBuffer(first).appendBuffer(second)));
  }

  private Future<Buffer> atOnce(List<String> made) {
    List<Future<Buffer>> calls = new ArrayList<>();
    made.forEach(token -> calls.add(call(token)));
    return Future.all(calls).map(all -> {
      Buffer joined = Buffer.buffer();
      calls.forEach(each -> joined.appendBuffer(each.result()));
      return joined;
    });
  }

  /** Background calls, like a cache refresh. */
  private void inBackground() {
    String token = Program.tokens().get(0);
    Program.note("-", List.of(token));
    call(token).onComplete(done -> vertx.setTimer(5, timer -> inBackground()));
  }

  @Override
  public void start() {
    var serving = new HttpServerOptions().setHost("127.0.0.1").setPort(Program.PORT).setAcceptBacklog(Program.BACKLOG);
    var calling = new HttpClientOptions().setDefaultHost("127.0.0.1").setDefaultPort(Program.LEAF_PORT)
        .setMaxPoolSize(POOL).setKeepAlive(!Program.FRESH);
    if (Program.HTTP2) {
      calling.setProtocolVersion(HttpVersion.HTTP_2).setHttp2ClearTextUpgrade(false).setHttp2MultiplexingLimit(100);
    }
    if (Program.CERTIFICATE != null) {
      serving.setSsl(true).setUseAlpn(Program.HTTP2)
          .setKeyCertOptions(new PemKeyCertOptions().addCertPath(Program.CERTIFICATE).addKeyPath(Program.KEY));
      calling.setSsl(true).setUseAlpn(Program.HTTP2)
          .setTrustOptions(new PemTrustOptions().addCertPath(Program.CERTIFICATE));
    }
    client = vertx.createHttpClient(calling);
    if (System.getenv("BACKGROUND") != null) {
      inBackground();
    }
    vertx.createHttpServer(serving).requestHandler(this::serve).listen().onFailure(Throwable::printStackTrace);
  }

  public static void main(String[] arguments) {
    Vertx.vertx().deployVerticle(Reactive.class.getName(), new DeploymentOptions().setInstances(LOOPS));
  }
}
