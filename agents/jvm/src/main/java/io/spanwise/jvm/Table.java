package io.spanwise.jvm;

import static net.bytebuddy.matcher.ElementMatchers.hasSuperType;
import static net.bytebuddy.matcher.ElementMatchers.isAbstract;
import static net.bytebuddy.matcher.ElementMatchers.isConstructor;
import static net.bytebuddy.matcher.ElementMatchers.isInterface;
import static net.bytebuddy.matcher.ElementMatchers.isPublic;
import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.namedOneOf;
import static net.bytebuddy.matcher.ElementMatchers.not;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.util.ArrayList;
import java.util.List;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** The table of hooks. */
final class Table {
  /** Packages of JDBC drivers. Other classes are not looked into, because that takes long. */
  private static final String[] DRIVERS = {
    "org.h2.", "org.postgresql.", "com.mysql.", "org.mariadb.jdbc.", "oracle.jdbc.",
    "com.microsoft.sqlserver.", "org.apache.derby.", "org.hsqldb.", "org.sqlite.", "com.ibm.db2.",
    "com.clickhouse.", "org.firebirdsql.", "net.snowflake.", "com.sap.db.", "net.sourceforge.jtds.",
  };

  private Table() {}

  private static ElementMatcher.Junction<TypeDescription> ofDriver(String type) {
    ElementMatcher.Junction<TypeDescription> within = nameStartsWith(DRIVERS[0]);
    for (String prefix : DRIVERS) {
      within = within.or(nameStartsWith(prefix));
    }
    return within.and(not(isInterface())).and(hasSuperType(named(type)));
  }

  static List<Hook> hooks() {
    List<Hook> all = new ArrayList<>();
    all.add(new Hook("probe", named("io.spanwise.jvm.Probe"), named("isWoven"), "ProbeAdvice"));

    for (String servlet : new String[] {"javax", "jakarta"}) {
      ElementMatcher<MethodDescription> both = takesArguments(2)
          .and(takesArgument(0, named(servlet + ".servlet.ServletRequest")))
          .and(takesArgument(1, named(servlet + ".servlet.ServletResponse")));
      String advice = servlet.equals("javax") ? "JavaxServletAdvice" : "JakartaServletAdvice";
      all.add(new Hook(
          "servlet: " + servlet,
          named(servlet + ".servlet.http.HttpServlet"),
          named("service").and(both),
          advice));
      all.add(new Hook(
          "servlet: Jersey?",
          namedOneOf("org.glassfish.jersey.servlet.ServletContainer"),
          named("service").and(both),
          advice));
      // Outside of all filters. Without any, the servlet comes first.
      all.add(new Hook(
          "servlet: Undertow?",
          named("io.undertow.servlet.handlers.FilterHandler$FilterChainImpl"),
          named("doFilter").and(both),
          advice));
      all.add(new Hook(
          "servlet: Tomcat?",
          named("org.apache.catalina.core.StandardEngineValve"),
          named("invoke").and(new Implements(servlet + ".servlet.http.HttpServletRequest")),
          advice));
    }

    ElementMatcher<MethodDescription> concrete = not(isAbstract());
    all.add(new Hook("jdbc: driver?", ofDriver("java.sql.Driver"),
        named("connect").and(takesArguments(2)).and(concrete), "JdbcConnectAdvice"));
    all.add(new Hook("jdbc: connection?", ofDriver("java.sql.Connection"),
        namedOneOf("prepareStatement", "prepareCall").and(takesArgument(0, String.class)).and(concrete),
        "JdbcPrepareAdvice"));
    all.add(new Hook("jdbc: connection?", ofDriver("java.sql.Connection"),
        named("createStatement").and(concrete), "JdbcCreateAdvice"));
    all.add(new Hook("jdbc: statement?", ofDriver("java.sql.Statement"),
        namedOneOf("execute", "executeQuery", "executeUpdate", "executeLargeUpdate")
            .and(takesArgument(0, String.class)).and(concrete), "JdbcStatementAdvice"));
    all.add(new Hook("jdbc: prepared?", ofDriver("java.sql.PreparedStatement"),
        namedOneOf("execute", "executeQuery", "executeUpdate", "executeLargeUpdate")
            .and(takesArguments(0)).and(concrete), "JdbcPreparedAdvice"));
    all.add(new Hook("jdbc: batch?", ofDriver("java.sql.Statement"),
        namedOneOf("executeBatch", "executeLargeBatch").and(takesArguments(0)).and(concrete),
        "JdbcBatchAdvice"));

    all.add(new Hook("http_client: HttpURLConnection",
        named("sun.net.www.protocol.http.HttpURLConnection"),
        namedOneOf("connect", "getOutputStream").and(takesArguments(0)), "UrlConnectAdvice"));
    all.add(new Hook("http_client: HttpURLConnection",
        named("sun.net.www.protocol.http.HttpURLConnection"),
        named("getInputStream").and(takesArguments(0)), "UrlInputAdvice"));
    all.add(new Hook("http_client: java.net.http",
        named("jdk.internal.net.http.HttpClientImpl"),
        named("sendAsync").and(takesArguments(4)), "java11.JavaHttpAdvice"));
    all.add(new Hook("http_client: OkHttp", named("okhttp3.internal.http.BridgeInterceptor"),
        named("intercept").and(takesArguments(1)), "OkHttpAdvice"));
    all.add(new Hook("http_client: OkHttp", named("okhttp3.internal.http.RealInterceptorChain"),
        named("proceed").and(takesArguments(1)), "OkHttpHeaderAdvice"));
    all.add(new Hook("http_client: Apache 4", named("org.apache.http.impl.execchain.ProtocolExec"),
        named("execute").and(takesArguments(4)), "Apache4Advice"));
    all.add(new Hook("http_client: Apache 5",
        named("org.apache.hc.client5.http.impl.classic.ProtocolExec"),
        named("execute").and(takesArguments(3)), "Apache5Advice"));

    messages(all);
    caches(all);
    all.add(new Hook("jobs: Spring",
        named("org.springframework.scheduling.support.ScheduledMethodRunnable"),
        named("run").and(takesArguments(0)), "SpringJobAdvice"));
    quartz(all);
    logs(all);
    EventLoopTable.add(all);
    RpcTable.add(all);
    RouteTable.add(all);
    return all;
  }

  private static void messages(List<Hook> all) {
    String kafka = "org.apache.kafka.clients.";
    all.add(new Hook("messaging: Kafka",
        namedOneOf(kafka + "producer.KafkaProducer", kafka + "consumer.KafkaConsumer"),
        isConstructor().and(takesArgument(0, namedOneOf("java.util.Map", "java.util.Properties"))),
        "KafkaMadeAdvice"));
    all.add(new Hook("messaging: Kafka", named(kafka + "producer.KafkaProducer"),
        named("send").and(takesArguments(2)), "KafkaSendAdvice"));
    all.add(new Hook("messaging: Kafka", named(kafka + "consumer.KafkaConsumer"),
        named("poll").and(takesArguments(1)).and(isPublic()), "KafkaPollAdvice"));
    all.add(new Hook("messaging: Kafka", named(kafka + "consumer.ConsumerRecords"),
        named("iterator").and(takesArguments(0)), "KafkaIteratorAdvice"));
    all.add(new Hook("messaging: Kafka", named(kafka + "consumer.ConsumerRecords"),
        named("records").and(takesArguments(String.class)), "KafkaIterableAdvice"));
    all.add(new Hook("messaging: Kafka", named(kafka + "consumer.ConsumerRecords"),
        named("records").and(takesArgument(0, named("org.apache.kafka.common.TopicPartition"))),
        "KafkaListAdvice"));

    all.add(new Hook("messaging: RabbitMQ", named("com.rabbitmq.client.impl.ChannelN"),
        named("basicPublish").and(takesArguments(6)), "RabbitPublishAdvice"));
    all.add(new Hook("messaging: RabbitMQ", named("com.rabbitmq.client.impl.ChannelN"),
        named("basicGet").and(takesArguments(2)), "RabbitGetAdvice"));
    all.add(new Hook("messaging: RabbitMQ", named("com.rabbitmq.client.impl.ConsumerDispatcher"),
        named("handleDelivery").and(takesArguments(5)), "RabbitDeliverAdvice"));

    String rocket = "org.apache.rocketmq.client.impl.";
    all.add(new Hook("messaging: RocketMQ", named(rocket + "producer.DefaultMQProducerImpl"),
        named("sendKernelImpl").and(takesArguments(6)), "RocketSendAdvice"));
    String consumer = rocket + "consumer.DefaultMQPushConsumerImpl";
    all.add(new Hook("messaging: RocketMQ", named(consumer), named("hasHook"), "RocketHasHookAdvice"));
    all.add(new Hook("messaging: RocketMQ", named(consumer), named("executeHookBefore"), "RocketBeforeAdvice"));
    all.add(new Hook("messaging: RocketMQ", named(consumer), named("executeHookAfter"), "RocketAfterAdvice"));
  }

  private static void caches(List<Hook> all) {
    ElementMatcher<TypeDescription> jedis = named("redis.clients.jedis.Connection");
    all.add(new Hook("cache: Jedis 2 and 3?", jedis,
        named("sendCommand").and(takesArguments(2)).and(takesArgument(1, byte[][].class))
            .and(not(new HasMethod("executeCommand"))), "JedisAdvice"));
    all.add(new Hook("cache: Jedis 4?", jedis,
        named("sendCommand").and(takesArguments(1))
            .and(takesArgument(0, named("redis.clients.jedis.CommandArguments"))), "Jedis4Advice"));
    all.add(new Hook("cache: Jedis", jedis, named("readProtocolWithCheckingBroken"), "JedisAnswerAdvice"));
    all.add(new Hook("cache: Lettuce", named("io.lettuce.core.RedisChannelHandler"),
        named("dispatch").and(takesArgument(0, named("io.lettuce.core.protocol.RedisCommand"))), "LettuceAdvice"));
    all.add(new Hook("cache: Lettuce", named("io.lettuce.core.protocol.DefaultEndpoint"),
        named("write").and(takesArgument(0, named("io.lettuce.core.protocol.RedisCommand"))),
        "LettuceWriteAdvice"));
  }

  private static void quartz(List<Hook> all) {
    ElementMatcher<TypeDescription> run = named("org.quartz.core.JobRunShell");
    all.add(new Hook("jobs: Quartz", run, named("run").and(takesArguments(0)), "QuartzRunAdvice"));
    all.add(new Hook("jobs: Quartz", run,
        named("notifyListenersBeginning").and(takesArguments(1)), "QuartzVetoAdvice"));
    all.add(new Hook("jobs: Quartz", run,
        named("notifyJobListenersComplete").and(takesArguments(2)), "QuartzFailAdvice"));
  }

  private static void logs(List<Hook> all) {
    all.add(new Hook("logs: Logback", named("ch.qos.logback.classic.Logger"),
        named("callAppenders").and(takesArguments(1)), "LogbackAdvice"));
    all.add(new Hook("logs: Log4j 2",
        namedOneOf("org.apache.logging.log4j.core.Logger", "org.apache.logging.log4j.core.async.AsyncLogger"),
        named("logMessage").and(takesArguments(5)).or(named("log").and(takesArguments(6))).and(not(isAbstract())),
        "Log4jAdvice"));
    all.add(new Hook("logs: java.util.logging", named("java.util.logging.Formatter"),
        named("formatMessage"), "JulAdvice"));
  }

  /** The method's class has a method of this name. */
  private static final class HasMethod extends ElementMatcher.Junction.AbstractBase<MethodDescription> {
    private final String name;

    private HasMethod(String name) {
      this.name = name;
    }

    @Override
    public boolean matches(MethodDescription method) {
      return !method.getDeclaringType().getDeclaredMethods().filter(named(name)).isEmpty();
    }
  }

  /** The first argument's class implements a type. */
  private static final class Implements extends ElementMatcher.Junction.AbstractBase<MethodDescription> {
    private final String type;

    private Implements(String type) {
      this.type = type;
    }

    @Override
    public boolean matches(MethodDescription method) {
      return method.getParameters().size() == 2
          && hasSuperType(named(type)).matches(method.getParameters().get(0).getType().asErasure());
    }
  }
}
