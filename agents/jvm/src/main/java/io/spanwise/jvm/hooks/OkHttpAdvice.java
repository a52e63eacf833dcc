package io.spanwise.jvm.hooks;

import io.spanwise.boot.Hooks;
import io.spanwise.boot.Span;
import io.spanwise.boot.Trace;
import net.bytebuddy.asm.Advice;
import okhttp3.HttpUrl;
import okhttp3.Interceptor;
import okhttp3.Request;
import okhttp3.Response;

/** A request of OkHttp, each that follows a redirect too. */
public final class OkHttpAdvice {
  private OkHttpAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static Span enter(@Advice.Argument(0) Interceptor.Chain chain) {
    if (!Hooks.httpClient) {
      return null;
    }
    Request request = chain.request();
    HttpUrl url = request.url();
    return Trace.send(
        Span.HTTP_CLIENT, request.method(), url.encodedPath(), url.host() + ":" + url.port());
  }

  @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
  static void exit(
      @Advice.Enter Span span, @Advice.Return Response response, @Advice.Thrown Throwable thrown) {
    Trace.end(span, response == null ? 0 : response.code(), thrown);
  }
}
