package io.spanwise.jvm.hooks;

import io.netty.channel.ChannelHandlerContext;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpRequestDecoder;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseDecoder;
import io.netty.handler.codec.http.LastHttpContent;
import io.spanwise.boot.Connection;
import io.spanwise.boot.Propagation;
import io.spanwise.boot.Span;
import java.util.List;
import net.bytebuddy.asm.Advice;

/** Netty's codec has read parts of a request or of a response. */
public final class NettyDecodeAdvice {
  private NettyDecodeAdvice() {}

  @Advice.OnMethodEnter(suppress = Throwable.class)
  static int enter(@Advice.Argument(2) List<Object> parts) {
    return parts.size();
  }

  @Advice.OnMethodExit(suppress = Throwable.class)
  static void exit(
      @Advice.This Object decoder,
      @Advice.Argument(0) ChannelHandlerContext context,
      @Advice.Argument(2) List<Object> parts,
      @Advice.Enter int before) {
    for (int at = before; at < parts.size(); at++) {
      Object part = parts.get(at);
      if (decoder instanceof HttpRequestDecoder) {
        if (part instanceof HttpRequest) {
          HttpRequest request = (HttpRequest) part;
          Connection connection = Connection.of(context.channel());
          Span span = connection.receives(
              request.method().name(), request.uri(), request.headers().get("traceparent"));
          if (span != null) {
            for (String header : Propagation.read(span)) {
              Propagation.read(header, span, request.headers().get(header));
            }
          }
          connection.received(span);
        }
      } else if (decoder instanceof HttpResponseDecoder) {
        Connection connection = Connection.known(context.channel());
        if (connection != null) {
          if (part instanceof HttpResponse) {
            connection.responds(((HttpResponse) part).status().code());
          }
          if (part instanceof LastHttpContent) {
            connection.responseEnds(false);
          }
        }
      }
    }
  }
}
