package io.spanwise.jvm;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.HttpURLConnection;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.URLConnection;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.DriverManager;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.catalina.startup.Tomcat;

/** A program of its own: Tomcat, a database and two clients. `/order?URL` calls the URL with both. */
final class Shop implements AutoCloseable {
  private final Process process;
  final String at;

  /** Starts it in a virtual machine of its own, and waits until it answers. */
  Shop(String... options) throws Exception {
    this(Path.of(System.getProperty("java.home")), ProcessBuilder.Redirect.INHERIT, options);
  }

  /** The same with another Java, and another place for what it says on standard error. */
  Shop(Path java, ProcessBuilder.Redirect errors, String... options) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(java.resolve("bin/java").toString());
    command.add("-Xmx128m");
    command.addAll(List.of(options));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), Shop.class.getName()));
    process = new ProcessBuilder(command).redirectError(errors).start();
    String port = process.inputReader().readLine();
    if (port == null) {
      throw new IOException("the program does not start");
    }
    at = "http://127.0.0.1:" + port;
  }

  long pid() {
    return process.pid();
  }

  /** The answer to a request for a path. */
  String get(String path) throws Exception {
    return HttpClient.newHttpClient().send(
        HttpRequest.newBuilder(URI.create(at + path)).build(),
        HttpResponse.BodyHandlers.ofString()).body();
  }

  /**
   * The answer to a request with headers as they are. Clients that the agent knows replace those of
   * traces.
   */
  static String ask(String url, String... headers) throws IOException {
    URI uri = URI.create(url);
    StringBuilder head = new StringBuilder("GET " + uri.getRawPath()
        + (uri.getRawQuery() == null ? "" : "?" + uri.getRawQuery()) + " HTTP/1.0\r\nHost: " + uri.getAuthority() + "\r\n");
    for (int at = 0; at < headers.length; at += 2) {
      head.append(headers[at]).append(": ").append(headers[at + 1]).append("\r\n");
    }
    try (Socket socket = new Socket(uri.getHost(), uri.getPort())) {
      socket.getOutputStream().write(head.append("\r\n").toString().getBytes(StandardCharsets.ISO_8859_1));
      String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      if (!answer.startsWith("HTTP/1.1 200") && !answer.startsWith("HTTP/1.0 200")) {
        throw new IOException(answer);
      }
      return answer.substring(answer.indexOf("\r\n\r\n") + 4);
    }
  }

  @Override
  public void close() throws InterruptedException {
    process.destroy();
    process.waitFor();
  }

  static final class Order extends javax.servlet.http.HttpServlet {
    private static final long serialVersionUID = 1;
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    @Override
    protected void doGet(
        javax.servlet.http.HttpServletRequest request,
        javax.servlet.http.HttpServletResponse response) throws IOException {
      String url = request.getQueryString();
      if (url == null) {
        response.getWriter().print(request.getHeader("traceparent"));
        return;
      }
      try (var connection = DriverManager.getConnection("jdbc:h2:mem:shop");
          var statement = connection.prepareStatement("select 42")) {
        statement.executeQuery().close();
        var first = (HttpURLConnection) URI.create(url).toURL().openConnection();
        response.getWriter().println(new String(first.getInputStream().readAllBytes()));
        response.getWriter().println(CLIENT.send(
            HttpRequest.newBuilder(URI.create(url)).build(),
            HttpResponse.BodyHandlers.ofString()).body());
      } catch (java.sql.SQLException | InterruptedException failure) {
        throw new IOException(failure);
      }
    }
  }

  /** `/cached?PORT` asks a Redis on that port without a library that the agent knows. */
  static final class Cached extends javax.servlet.http.HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(
        javax.servlet.http.HttpServletRequest request,
        javax.servlet.http.HttpServletResponse response) throws IOException {
      try (Socket redis = new Socket("127.0.0.1", Integer.parseInt(request.getQueryString()))) {
        redis.getOutputStream().write("*1\r\n$4\r\nPING\r\n".getBytes(StandardCharsets.US_ASCII));
        byte[] answer = redis.getInputStream().readNBytes(5);
        response.getWriter().print(new String(answer, StandardCharsets.US_ASCII));
      }
    }
  }

  /** `/loader?use` uses a library with a loader of its own, and `/loader?let-go` lets it go. */
  static final class Loader extends javax.servlet.http.HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(
        javax.servlet.http.HttpServletRequest request,
        javax.servlet.http.HttpServletResponse response) throws IOException {
      try {
        if (request.getQueryString().equals("use")) {
          Loaders.use();
          response.getWriter().print("used");
        } else {
          response.getWriter().print(Loaders.letGo());
        }
      } catch (Exception failure) {
        throw new IOException(failure);
      }
    }
  }

  /**
   * Bytes of the heap and of the metaspace, classes, and old versions of classes, after a collection.
   * The virtual machine counts each change of a class as one that was loaded, so its own count says
   * nothing here. It lists a class once more for each old version that some thread still runs. Blocks
   * of the metaspace that it has freed are among those that its pool calls used.
   */
  static final class Memory extends javax.servlet.http.HttpServlet {
    private static final long serialVersionUID = 1;
    private static final Pattern METASPACE =
        Pattern.compile("Both:.* (\\d+) bytes \\([^)]*\\) used,.*deallocated: \\d+ blocks with (\\d+) bytes");

    private static String command(String name, String... arguments) throws IOException {
      try {
        return (String) ManagementFactory.getPlatformMBeanServer().invoke(
            new ObjectName("com.sun.management:type=DiagnosticCommand"), name,
            new Object[] {arguments}, new String[] {String[].class.getName()});
      } catch (JMException failure) {
        throw new IOException(failure);
      }
    }

    @Override
    protected void doGet(
        javax.servlet.http.HttpServletRequest request,
        javax.servlet.http.HttpServletResponse response) throws IOException {
      long least = Long.MAX_VALUE;
      // Others work at the same time.
      for (int times = 0; times < 3; times++) {
        System.gc();
        least = Math.min(least, ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed());
      }
      String said = command("vmMetaspace", "scale=1");
      Matcher metaspace = METASPACE.matcher(said);
      if (!metaspace.find()) {
        throw new IOException("no figures of the metaspace: " + said);
      }
      List<String> classes = command("vmClassHierarchy").lines().map(line -> line.replaceFirst("^[| -]*", "")).toList();
      long names = classes.stream().distinct().count();
      response.getWriter().print(least + " "
          + (Long.parseLong(metaspace.group(1)) - Long.parseLong(metaspace.group(2))) + " "
          + Long.parseLong(metaspace.group(2)) + " " + names + " " + (classes.size() - names));
    }
  }

  public static void main(String[] none) throws Exception {
    // As servers do that must let go of the jars of their programs.
    URLConnection.setDefaultUseCaches("jar", false);
    File base = Files.createTempDirectory("shop").toFile();
    base.deleteOnExit();
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(base.getPath());
    tomcat.setPort(0);
    if (Boolean.getBoolean("shop.virtual")) {
      // Of Java 21.
      tomcat.getConnector().getProtocolHandler().setExecutor(
          (Executor) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null));
    }
    var context = tomcat.addContext("", null);
    Tomcat.addServlet(context, "order", new Order());
    context.addServletMappingDecoded("/", "order");
    Tomcat.addServlet(context, "cached", new Cached());
    context.addServletMappingDecoded("/cached", "cached");
    Tomcat.addServlet(context, "loader", new Loader());
    context.addServletMappingDecoded("/loader", "loader");
    Tomcat.addServlet(context, "memory", new Memory());
    context.addServletMappingDecoded("/memory", "memory");
    tomcat.start();
    System.out.println(tomcat.getConnector().getLocalPort());
    // Ends with the test, even if that is killed.
    while (System.in.read() >= 0) {}
    System.exit(0);
  }

  /** A port that is free now. */
  static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }
}
