package io.spanwise.jvm.hooks;

import io.netty.channel.ChannelHandlerContext;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpRequestEncoder;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseEncoder;
import io.netty.handler.codec.http.LastHttpContent;
import io.spanwise.boot.Connection;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Span;
import net.bytebuddy.asm.Advice;

/** Netty's codec writes a part of a request or of a response. */
public final class NettyEncodeAdvice {
  private NettyEncodeAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static void enter(
      @Advice.This Object encoder,
      @Advice.Argument(0) ChannelHandlerContext context,
      @Advice.Argument(1) Object part) {
    if (encoder instanceof HttpRequestEncoder) {
      if (part instanceof HttpRequest) {
        HttpRequest request = (HttpRequest) part;
        Span span = Connection.of(context.channel())
            .sends(request.method().name(), request.uri(), request.headers().get("host"));
        if (span != null) {
          for (String header : Propagation.written()) {
            String value = Propagation.value(header, span);
            if (value != null && (Propagation.replaces(header) || !request.headers().contains(header))) {
              request.headers().set(header, value);
            }
          }
        }
      }
    } else if (encoder instanceof HttpResponseEncoder) {
      Connection connection = Connection.known(context.channel());
      if (connection != null) {
        if (part instanceof HttpResponse) {
          connection.responds(((HttpResponse) part).status().code());
        }
        if (part instanceof LastHttpContent) {
          connection.responseEnds(true);
        }
      }
    }
  }
}
