package io.spanwise.jvm;

import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Servers that tests need, each a process of its own without the agent. */
final class Servers implements AutoCloseable {
  private static final long PATIENCE_NANO = 90_000_000_000L;

  private final List<Process> processes = new ArrayList<>();
  private HttpServer web;

  /** Starts a program, and waits until something listens on a port. */
  void start(int port, Path log, Map<String, String> environment, List<String> command) throws Exception {
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile());
    builder.environment().putAll(environment);
    Process process = builder.start();
    processes.add(process);
    long end = System.nanoTime() + PATIENCE_NANO;
    while (System.nanoTime() < end && process.isAlive()) {
      try (Socket socket = new Socket()) {
        socket.connect(new InetSocketAddress("127.0.0.1", port), 1000);
        return;
      } catch (IOException notYet) {
        Thread.sleep(100);
      }
    }
    throw new IllegalStateException(command + " does not listen on " + port + ": " + Files.readString(log));
  }

  /** A command that runs a class of the jars that the build has copied. */
  static List<String> java(String jars, String... arguments) {
    File directory = new File(System.getProperty("servers"), jars);
    if (!directory.isDirectory()) {
      throw new IllegalStateException(directory + " is missing: run the tests by `make test-jvm`");
    }
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("java.home") + "/bin/java");
    command.add("-Xmx512m");
    command.add("-cp");
    command.add(directory + "/*");
    command.addAll(List.of(arguments));
    return command;
  }

  /** Answers every request with its header. */
  String web() throws IOException {
    web = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    web.createContext("/", exchange -> {
      exchange.sendResponseHeaders(200, -1);
      exchange.close();
    });
    web.start();
    return "http://127.0.0.1:" + web.getAddress().getPort();
  }

  /** A call, to see what it belongs to. */
  static void call(String url) {
    try {
      ((HttpURLConnection) URI.create(url).toURL().openConnection()).getResponseCode();
    } catch (IOException failure) {
      throw new IllegalStateException(failure);
    }
  }

  /** The span of such a call. */
  static Receiver.Span called(String path) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == 2 && path.equals(span.target()));
  }

  @Override
  public void close() throws InterruptedException {
    if (web != null) {
      web.stop(0);
    }
    for (Process process : processes) {
      process.descendants().forEach(ProcessHandle::destroy);
      process.destroy();
      if (!process.waitFor(20, java.util.concurrent.TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    }
  }
}
