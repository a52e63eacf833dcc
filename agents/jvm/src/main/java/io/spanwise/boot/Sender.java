package io.spanwise.boot;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Empties the rings and sends batches, over one connection that stays open. It sleeps until there
 * is something, and then lets spans come together for a while.
 */
public final class Sender implements Runnable {
  private static final long GATHER_NANO = TimeUnit.MILLISECONDS.toNanos(500);
  private static final long IDLE_NANO = TimeUnit.SECONDS.toNanos(5);
  private static final int CONNECT_MILLIS = 5_000;
  private static final int ANSWER_MILLIS = 30_000;
  private static final int MOST_ANSWER_BYTES = 64 * 1024;
  private static final long LONGEST_WAIT_NANO = TimeUnit.SECONDS.toNanos(30);
  /**
   * Settings come with the answer to a batch. Without spans, such as when all hooks are off, an empty
   * one is sent after this time.
   */
  private static final long ASK_NANO = TimeUnit.SECONDS.toNanos(30);

  private static volatile Sender running;

  private final String host;
  private final int port;
  private final String[] resource;
  private final Encoder encoder = new Encoder();
  private final Span span = new Span();
  private Socket socket;
  private InputStream in;
  private OutputStream out;
  private long droppedFull;
  private long droppedDeep;
  private long sentNano = System.nanoTime();
  private long waitNano = TimeUnit.SECONDS.toNanos(1);
  private volatile boolean ends;
  private Thread atEnd;

  private Sender(String endpoint) {
    URI uri = URI.create(endpoint);
    if (!"http".equals(uri.getScheme()) || uri.getHost() == null) {
      throw new IllegalArgumentException("endpoint is http://HOST:PORT, not " + endpoint);
    }
    host = uri.getHost();
    port = uri.getPort() < 0 ? 4318 : uri.getPort();
    resource = new String[] {
      "service.name", Settings.service(),
      "process.pid", pid(),
      "host.name", hostName(),
      "process.runtime.version", System.getProperty("java.version", ""),
    };
  }

  /** Starts to record and to send. */
  public static void start() {
    if (running != null) {
      return;
    }
    Sender sender = new Sender(Settings.get("endpoint", "http://127.0.0.1:4318"));
    running = sender;
    Settings.sampling(Settings.get("sampling", "1"));
    Hooks.off(Settings.get("hooks_off", ""));
    Propagation.set(Settings.get("propagation", Propagation.DEFAULT));
    Thread thread = new Thread(null, sender, "spanwise-sender", 256 * 1024);
    thread.setDaemon(true);
    // The loader of the thread that loaded the agent is not kept alive.
    thread.setContextClassLoader(null);
    Rings.sender(thread);
    thread.start();
    sender.atEnd = new Thread(null, sender::finish, "spanwise-end", 256 * 1024);
    Runtime.getRuntime().addShutdownHook(sender.atEnd);
    Trace.generation++;
    Trace.on = true;
  }

  /** Records nothing any more, and sends what there is. */
  public static void stop() {
    Sender sender = running;
    if (sender == null) {
      return;
    }
    Trace.on = false;
    running = null;
    sender.ends = true;
    Rings.sendNow();
    try {
      Runtime.getRuntime().removeShutdownHook(sender.atEnd);
    } catch (IllegalStateException programEnds) {
      return;
    }
    sender.finish();
    Connection.clear();
    Rpc.clear();
    Requests.clear();
    Routes.clear();
    UrlConnections.clear();
  }

  private static String pid() {
    try {
      return new java.io.File("/proc/self").getCanonicalFile().getName();
    } catch (IOException none) {
      return "";
    }
  }

  private static String hostName() {
    try (InputStream name = new java.io.FileInputStream("/proc/sys/kernel/hostname")) {
      byte[] bytes = new byte[256];
      int length = name.read(bytes);
      return length <= 0 ? "" : new String(bytes, 0, length, StandardCharsets.UTF_8).trim();
    } catch (IOException none) {
      return "";
    }
  }

  @Override
  public void run() {
    while (!ends) {
      try {
        rest();
        round();
      } catch (Throwable failure) {
        Log.say("the sender: " + failure);
      }
    }
  }

  /** What is left when the program ends. */
  private void finish() {
    ends = true;
    synchronized (this) {
      try {
        waitNano = 0;
        round();
      } catch (Throwable failure) {
        Log.say("the last spans are not sent: " + failure);
      }
    }
  }

  private void rest() {
    Rings.asleep = true;
    if (isEmpty()) {
      LockSupport.parkNanos(this, IDLE_NANO);
    }
    Rings.asleep = false;
    if (!ends && !isEmpty()) {
      LockSupport.parkNanos(this, GATHER_NANO);
    }
    Rings.collectFree();
  }

  private static boolean isEmpty() {
    for (Ring ring : Rings.all()) {
      if (!ring.isEmpty()) {
        return false;
      }
    }
    return true;
  }

  private synchronized void round() {
    boolean more = true;
    while (more) {
      long wall = System.currentTimeMillis() * 1_000_000L;
      long nano = System.nanoTime();
      encoder.begin(nano);
      more = false;
      droppedDeep += Rings.takeTooDeep();
      for (Ring ring : Rings.all()) {
        droppedFull += ring.takeDropped();
        while (!encoder.isFull() && ring.take(span)) {
          encoder.add(span);
        }
        more |= encoder.isFull();
      }
      if (encoder.count() == 0 && droppedFull + droppedDeep == 0 && (ends || nano - sentNano < ASK_NANO)) {
        return;
      }
      sentNano = nano;
      byte[] batch = encoder.finish(wall, resource, droppedFull, droppedDeep);
      if (deliver(batch)) {
        droppedFull = 0;
        droppedDeep = 0;
      } else {
        droppedFull += encoder.count();
      }
    }
  }

  /** Sends until it is taken. Meanwhile rings fill, and count what they drop. */
  private boolean deliver(byte[] batch) {
    long wait = waitNano;
    while (true) {
      try {
        int status = exchange(batch);
        if (status >= 200 && status < 300) {
          return true;
        }
        if (status != 429 && status != 503 && status != 500 && status != 502 && status != 504) {
          Log.say("http://" + host + ":" + port + " does not take spans of the JVM: status " + status);
          return false;
        }
      } catch (IOException failure) {
        close();
        Log.say("http://" + host + ":" + port + " cannot be reached, and is tried again: " + failure);
      }
      if (ends) {
        return false;
      }
      LockSupport.parkNanos(this, wait);
      wait = Math.min(LONGEST_WAIT_NANO, wait * 2);
    }
  }

  private int exchange(byte[] batch) throws IOException {
    boolean fresh = socket == null;
    try {
      return exchangeOnce(batch);
    } catch (IOException failure) {
      close();
      if (fresh) {
        throw failure;
      }
      // The server has closed the connection meanwhile.
      return exchangeOnce(batch);
    }
  }

  private int exchangeOnce(byte[] batch) throws IOException {
    if (socket == null) {
      Socket opened = new Socket();
      opened.setTcpNoDelay(true);
      opened.setSoTimeout(ANSWER_MILLIS);
      opened.connect(new InetSocketAddress(host, port), CONNECT_MILLIS);
      in = new BufferedInputStream(opened.getInputStream());
      out = opened.getOutputStream();
      socket = opened;
    }
    String head = "POST /v1/jvm HTTP/1.1\r\nhost: " + host + ":" + port
        + "\r\ncontent-type: application/x-spanwise-jvm\r\ncontent-length: " + batch.length + "\r\n\r\n";
    byte[] start = head.getBytes(StandardCharsets.ISO_8859_1);
    byte[] all = java.util.Arrays.copyOf(start, start.length + batch.length);
    System.arraycopy(batch, 0, all, start.length, batch.length);
    out.write(all);
    out.flush();
    String first = line();
    String[] words = first.split(" ");
    if (words.length < 2 || !first.startsWith("HTTP/1.")) {
      throw new IOException("no HTTP response: " + first);
    }
    int length = 0;
    boolean closes = false;
    for (String header = line(); !header.isEmpty(); header = line()) {
      String low = header.toLowerCase(Locale.ROOT);
      if (low.startsWith("content-length:")) {
        length = Integer.parseInt(low.substring(15).trim());
      } else if (low.startsWith("connection:") && low.contains("close")) {
        closes = true;
      }
    }
    if (length > MOST_ANSWER_BYTES) {
      throw new IOException("the response is too long");
    }
    byte[] body = new byte[length];
    new java.io.DataInputStream(in).readFully(body);
    if (closes) {
      close();
    }
    int status = Integer.parseInt(words[1]);
    if (status == 200) {
      Settings.take(new String(body, StandardCharsets.UTF_8));
    }
    return status;
  }

  private String line() throws IOException {
    StringBuilder text = new StringBuilder();
    for (int next = in.read(); next != '\n'; next = in.read()) {
      if (next < 0 || text.length() > 8192) {
        throw new IOException("the connection was closed within a response");
      }
      if (next != '\r') {
        text.append((char) next);
      }
    }
    return text.toString();
  }

  private void close() {
    try {
      if (socket != null) {
        socket.close();
      }
    } catch (IOException closed) {
      // It is closed anyway.
    }
    socket = null;
  }
}
