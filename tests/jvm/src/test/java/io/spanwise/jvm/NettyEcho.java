package io.spanwise.jvm;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** A server of Netty's own handlers. It answers a little later, with headers that it was sent. */
final class NettyEcho implements AutoCloseable {
  private final EventLoopGroup group;
  private final Channel channel;
  final String at;

  @SuppressWarnings("deprecation") // Its replacement exists from version 4.2 on only.
  NettyEcho() throws InterruptedException {
    group = new NioEventLoopGroup(2);
    channel = new ServerBootstrap().group(group).channel(NioServerSocketChannel.class)
        .childHandler(new ChannelInitializer<Channel>() {
          @Override
          protected void initChannel(Channel opened) {
            opened.pipeline().addLast(
                new HttpServerCodec(), new HttpObjectAggregator(65536), new Handler());
          }
        }).bind("127.0.0.1", 0).sync().channel();
    at = "http://127.0.0.1:" + ((InetSocketAddress) channel.localAddress()).getPort();
  }

  private static final class Handler extends SimpleChannelInboundHandler<FullHttpRequest> {
    @Override
    protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
      StringBuilder text = new StringBuilder();
      request.headers().forEach(header ->
          text.append(header.getKey().toLowerCase()).append(": ").append(header.getValue()).append('\n'));
      if (request.uri().startsWith("/closes")) {
        context.close();
        return;
      }
      var status = request.uri().startsWith("/fails")
          ? HttpResponseStatus.SERVICE_UNAVAILABLE : HttpResponseStatus.OK;
      context.executor().schedule(() -> {
        var response = new DefaultFullHttpResponse(
            HttpVersion.HTTP_1_1, status, Unpooled.copiedBuffer(text, StandardCharsets.UTF_8));
        response.headers().set("content-length", response.content().readableBytes());
        context.writeAndFlush(response);
      }, ThreadLocalRandom.current().nextInt(1, 15), TimeUnit.MILLISECONDS);
    }
  }

  @Override
  public void close() {
    channel.close();
    group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
  }
}
