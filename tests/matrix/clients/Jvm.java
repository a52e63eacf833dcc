import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.FileInputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Map;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * HTTP/1 of the JVM: Jvm serve PORT [CERTIFICATE KEY], or Jvm MODE PORT [CERTIFICATE]; or only
 * connections: Jvm handshakes MODE PORT CERTIFICATE.
 */
public class Jvm {
  static final Map<String, Integer> CODES = Map.of("index", 200, "missing", 404, "gone", 503);

  static SSLContext context(String... files) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    Certificate certificate;
    try (FileInputStream in = new FileInputStream(files[0])) {
      certificate = CertificateFactory.getInstance("X.509").generateCertificate(in);
    }
    store.setCertificateEntry("peer", certificate);
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    if (files.length > 1) {
      String pem = Files.readString(Path.of(files[1])).replaceAll("-----.*?-----|\\s", "");
      var key =
          KeyFactory.getInstance("RSA")
              .generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem)));
      store.setKeyEntry("own", key, new char[0], new Certificate[] {certificate});
    }
    keys.init(store, new char[0]);
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }

  static void serve(int port, String... files) throws Exception {
    InetSocketAddress address = new InetSocketAddress("127.0.0.1", port);
    HttpServer server;
    if (files.length > 0) {
      HttpsServer secure = HttpsServer.create(address, 0);
      secure.setHttpsConfigurator(new HttpsConfigurator(context(files)));
      server = secure;
    } else {
      server = HttpServer.create(address, 0);
    }
    server.createContext(
        "/",
        exchange -> {
          String word = exchange.getRequestURI().getPath().substring(1).split("-")[0];
          byte[] body = "geheim\n".getBytes();
          exchange.sendResponseHeaders(CODES.get(word), body.length);
          exchange.getResponseBody().write(body);
          exchange.close();
        });
    server.start();
  }

  static void ask(int port, String... files) throws Exception {
    HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
    if (files.length > 0) {
      builder.sslContext(context(files));
    }
    HttpClient client = builder.build();
    String scheme = files.length > 0 ? "https" : "http";
    for (String path : new String[] {"/index", "/missing", "/gone", "/index-a", "/gone-b"}) {
      URI uri = URI.create(scheme + "://127.0.0.1:" + port + path);
      int code = client.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofString()).statusCode();
      System.out.printf(
          "{\"op\": \"GET %s\", \"failed\": %b, \"code\": %d, \"server_failed\": %b}%n",
          path, code >= 400, code, code >= 500);
    }
  }

  /** Connections with both versions, and one that fails because the certificate is unknown. */
  static void handshakes(int port, String file) throws Exception {
    for (String version : new String[] {"TLSv1.2", "TLSv1.3", ""}) {
      SSLContext context = version.isEmpty() ? SSLContext.getDefault() : context(file);
      boolean failed = false;
      try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", port)) {
        // In TLS 1.3, the refusal is encrypted and cannot be seen.
        socket.setEnabledProtocols(new String[] {version.isEmpty() ? "TLSv1.2" : version});
        socket.startHandshake();
        socket.getOutputStream().write("GET /index HTTP/1.1\r\nHost: x\r\n\r\n".getBytes());
        socket.getInputStream().read();
      } catch (SSLException refused) {
        failed = true;
      }
      System.out.printf("{\"op\": \"TLS\", \"failed\": %b}%n", failed);
    }
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments[0].equals("handshakes")) {
      handshakes(Integer.parseInt(arguments[2]), arguments[3]);
      return;
    }
    int port = Integer.parseInt(arguments[1]);
    String[] files = java.util.Arrays.copyOfRange(arguments, 2, arguments.length);
    if (arguments[0].equals("serve")) {
      serve(port, files);
    } else {
      ask(port, files);
      System.exit(0);
    }
  }
}
