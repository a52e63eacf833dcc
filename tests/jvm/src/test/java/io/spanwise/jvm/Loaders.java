package io.spanwise.jvm;

import io.netty.buffer.Unpooled;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A program that loads a library with a loader of its own, uses it, and lets it go. */
final class Loaders {
  private static URLClassLoader loader;

  private Loaders() {}

  /** Serves a request that waits for its answer, and another one that gets it. */
  public static final class Use implements Runnable {
    private static EmbeddedChannel open;

    @Override
    public void run() {
      if (open == null) {
        open = serve(false);
      }
      serve(true).close();
    }

    private static EmbeddedChannel serve(boolean answers) {
      EmbeddedChannel channel = new EmbeddedChannel(new HttpServerCodec());
      channel.writeInbound(Unpooled.copiedBuffer(
          "GET /loaded HTTP/1.1\r\nhost: here\r\n\r\n", StandardCharsets.US_ASCII));
      if (answers) {
        channel.writeOutbound(new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK));
      }
      return channel;
    }
  }

  static void use() throws Exception {
    if (loader == null) {
      List<URL> all = new ArrayList<>();
      for (String each : System.getProperty("java.class.path").split(":")) {
        all.add(Path.of(each).toUri().toURL());
      }
      loader = new URLClassLoader(all.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    }
    // Netty keeps its loader as long as the thread lives.
    Thread thread = new Thread(
        (Runnable) loader.loadClass(Use.class.getName()).getConstructor().newInstance());
    thread.setContextClassLoader(null);
    thread.start();
    thread.join();
  }

  static String letGo() throws Exception {
    WeakReference<ClassLoader> gone = new WeakReference<>(loader);
    loader.close();
    loader = null;
    for (int attempt = 0; attempt < 50 && gone.get() != null; attempt++) {
      System.gc();
      Thread.sleep(50);
    }
    return gone.get() == null ? "gone" : "held";
  }

  public static void main(String[] none) throws Exception {
    BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
    for (String line = asked.readLine(); line != null; line = asked.readLine()) {
      if (line.equals("use")) {
        use();
        System.out.println("used");
      } else {
        System.out.println(letGo());
      }
    }
    System.exit(0);
  }
}
