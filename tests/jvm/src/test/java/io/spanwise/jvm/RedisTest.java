package io.spanwise.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.api.StatefulRedisConnection;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.exceptions.JedisDataException;

/** Clients of Redis and a real server. The build runs it with their oldest and newest versions. */
class RedisTest {
  @TempDir static Path data;
  private static final Servers SERVERS = new Servers();
  private static int port;

  @BeforeAll
  static void start() throws Exception {
    port = Shop.freePort();
    SERVERS.start(port, data.resolve("redis.log"), Map.of(), List.of(
        "redis-server", "--port", Integer.toString(port), "--bind", "127.0.0.1", "--save", "",
        "--dir", data.toString()));
  }

  @AfterAll
  static void stop() throws Exception {
    SERVERS.close();
  }

  private static Receiver.Span command(String name) throws InterruptedException {
    return Receiver.ONE.await(span -> span.component() == 8 && name.equals(span.name()));
  }

  private static long count(String name) {
    return Receiver.ONE.all().stream().filter(span -> span.component() == 8 && name.equals(span.name())).count();
  }

  private static void check(String name, long leastNano) throws InterruptedException {
    var span = command(name);
    assertEquals("redis://127.0.0.1:" + port, span.peer());
    assertEquals(0, span.parent());
    assertTrue(span.durationNano() >= leastNano, span::toString);
    assertTrue(Receiver.ONE.all().stream().noneMatch(each -> each.toString().contains("secret")));
  }

  @Test
  void jedis() throws Exception {
    try (Jedis jedis = new Jedis("127.0.0.1", port)) {
      jedis.setnx("secret", "secret");
      jedis.append("secret", "secret");
      assertEquals("secretsecret", jedis.getrange("secret", 0, -1));
      check("SETNX", 0);
      check("APPEND", 0);
      check("GETRANGE", 0);
      assertThrows(JedisDataException.class, () -> jedis.lpush("secret", "1"));
      assertEquals("redis.clients.jedis.exceptions.JedisDataException", command("LPUSH").error());
      // Waits for a second, and is answered then.
      jedis.brpop(1, "secret-none");
      check("BRPOP", 900_000_000);
      Pipeline pipeline = jedis.pipelined();
      pipeline.sadd("secret-set", "1");
      pipeline.hset("secret-hash", "1", "2");
      pipeline.sadd("secret-set", "2");
      pipeline.zadd("secret", 1, "2");
      Thread.sleep(50);
      assertEquals(4, pipeline.syncAndReturnAll().size());
      check("SADD", 50_000_000);
      check("HSET", 50_000_000);
      assertTrue(command("ZADD").failed());
      jedis.strlen("secret");
      command("STRLEN");
      assertEquals(2, count("SADD"));
      assertEquals(1, count("HSET"));
      assertEquals(1, count("STRLEN"));
    }
  }

  @Test
  void jedisWithoutAServer() throws Exception {
    Jedis jedis = new Jedis("127.0.0.1", 1);
    assertThrows(RuntimeException.class, () -> jedis.dbSize());
  }

  @Test
  void lettuce() throws Exception {
    RedisClient client = RedisClient.create("redis://127.0.0.1:" + port);
    try (StatefulRedisConnection<String, String> connection = client.connect()) {
      connection.sync().incr("secret-number");
      check("INCR", 0);
      connection.async().decr("secret-number").get(10, TimeUnit.SECONDS);
      check("DECR", 0);
      // Waits on the server for a second; the call returns at once.
      var waits = connection.async().blpop(1, "secret-none");
      assertEquals(0, count("BLPOP"));
      waits.get(10, TimeUnit.SECONDS);
      check("BLPOP", 900_000_000);
      connection.sync().setex("secret-text", 100, "x");
      assertThrows(RedisCommandExecutionException.class, () -> connection.sync().incrby("secret-text", 1));
      assertEquals("io.lettuce.core.RedisCommandExecutionException", command("INCRBY").error());
      connection.reactive().pttl("secret-text").block();
      check("PTTL", 0);
      assertEquals(1, count("INCR"));
      assertEquals(1, count("DECR"));
      assertEquals(1, count("PTTL"));
    } finally {
      client.shutdown(0, 1, TimeUnit.SECONDS);
    }
  }
}
