import java.io.FileInputStream;
import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The common part of the programs; see ../python/program.py. */
final class Program {
  static final int PORT = Integer.parseInt(System.getenv("PORT"));
  static final int LEAF_PORT = Integer.parseInt(System.getenv("LEAF_PORT"));
  static final boolean PARALLEL = System.getenv("FAN_OUT").equals("parallel");
  static final boolean FRESH = System.getenv("CONNECTIONS").equals("fresh");
  static final boolean HTTP2 = System.getenv("HTTP").equals("2");
  static final String CERTIFICATE = System.getenv("CERTIFICATE");
  static final String KEY = System.getenv("KEY");
  static final String STYLE = System.getenv("STYLE");
  static final int BACKLOG = 1024;

  private static final PrintWriter TRUTH = open(System.getenv("TRUTH"));

  private Program() {}

  private static PrintWriter open(String path) {
    try {
      return new PrintWriter(new FileWriter(path, true), true);
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  static List<String> tokens() {
    List<String> tokens = new ArrayList<>();
    for (int call = 0; call < (PARALLEL ? 3 : 2); call++) {
      tokens.add(HexFormat.of().toHexDigits(ThreadLocalRandom.current().nextLong()));
    }
    return tokens;
  }

  static void note(String path, List<String> made) {
    String line = path.substring(path.lastIndexOf('/') + 1) + " " + String.join(" ", made);
    synchronized (TRUTH) {
      TRUTH.println(line);
    }
  }

  static String leafUrl(String token) {
    return (CERTIFICATE == null ? "http" : "https") + "://127.0.0.1:" + LEAF_PORT + "/leaf/" + token;
  }

  /** Uses a little processor time, like a handler. */
  static byte[] work(byte[] body) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      digest.update(body);
      return HexFormat.of().formatHex(digest.digest(new byte[4096])).getBytes(StandardCharsets.US_ASCII);
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error);
    }
  }

  static void pause() {
    try {
      Thread.sleep(ThreadLocalRandom.current().nextInt(3));
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  /** For both sides; null for plaintext. */
  static SSLContext tls() throws Exception {
    if (CERTIFICATE == null) {
      return null;
    }
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    Certificate certificate;
    try (FileInputStream in = new FileInputStream(CERTIFICATE)) {
      certificate = CertificateFactory.getInstance("X.509").generateCertificate(in);
    }
    store.setCertificateEntry("peer", certificate);
    String pem = Files.readString(Path.of(KEY)).replaceAll("-----.*?-----|\\s", "");
    var key = KeyFactory.getInstance("RSA").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem)));
    store.setKeyEntry("own", key, new char[0], new Certificate[] {certificate});
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(store, new char[0]);
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }
}
