import jakarta.servlet.http.HttpServletRequest;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.scheduling.concurrent.ThreadPoolTaskExecutor;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** Spring MVC on Tomcat: calls in methods that are `@Async`, on a pool of threads. */
@SpringBootConfiguration
@EnableAutoConfiguration
@EnableAsync
@Import({SpringAsync.Client.class, SpringAsync.Controller.class})
public class SpringAsync {
  private static final int POOL = 16;

  public static void main(String[] arguments) {
    if (System.getenv("BACKGROUND") != null) {
      Thread background = new Thread(SpringAsync::background);
      background.setDaemon(true);
      background.start();
    }
    SpringApplication application = new SpringApplication(SpringAsync.class);
    application.setDefaultProperties(Map.of(
        "server.port", Program.PORT, "server.address", "127.0.0.1", "server.tomcat.max-keep-alive-requests", -1,
        "spring.main.banner-mode", "off"));
    application.run();
  }

  @Bean
  ThreadPoolTaskExecutor applicationTaskExecutor() {
    ThreadPoolTaskExecutor pool = new ThreadPoolTaskExecutor();
    pool.setCorePoolSize(POOL);
    return pool;
  }

  static byte[] call(String token) {
    try {
      var connection = (HttpURLConnection) URI.create(Program.leafUrl(token)).toURL().openConnection();
      try (InputStream body = connection.getInputStream()) {
        return body.readAllBytes();
      }
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private static void background() {
    while (true) {
      List<String> made = Program.tokens().subList(0, 1);
      Program.note("-", made);
      call(made.get(0));
      Program.pause();
    }
  }

  /** Makes the calls. */
  public static class Client {
    @Async
    public CompletableFuture<byte[]> reply(String token) {
      byte[] reply = call(token);
      Program.pause();
      return CompletableFuture.completedFuture(reply);
    }
  }

  /** Serves the requests. */
  @RestController
  public static class Controller {
    private final Client client;

    public Controller(Client client) {
      this.client = client;
    }

    @GetMapping("/**")
    public byte[] serve(HttpServletRequest request) {
      List<String> made = Program.tokens();
      Program.work(request.getRequestURI().getBytes());
      List<CompletableFuture<byte[]>> replies = new ArrayList<>();
      for (String token : made) {
        CompletableFuture<byte[]> reply = client.reply(token);
        replies.add(reply);
        if (!Program.PARALLEL) {
          reply.join();
        }
      }
      StringBuilder all = new StringBuilder();
      replies.forEach(reply -> all.append(new String(reply.join())));
      Program.note(request.getRequestURI(), made);
      return Program.work(all.toString().getBytes());
    }
  }
}
