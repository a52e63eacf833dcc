package io.spanwise.boot;

import java.net.InetAddress;

/** What is known of RabbitMQ's connections and messages. */
public final class Rabbit {
  private static final Attached<String> PEERS = new Attached<>();
  private static final Getter ADDRESS = new Getter("getAddress");
  private static final Getter PORT = new Getter("getPort");

  private Rabbit() {}

  /** The name of a destination: an exchange and a routing key (conventions for RabbitMQ). */
  public static String destination(String exchange, String key) {
    boolean hasKey = key != null && !key.isEmpty();
    if (exchange == null || exchange.isEmpty()) {
      return hasKey ? key : "amq.default";
    }
    return hasKey && !key.equals(exchange) ? exchange + ":" + key : exchange;
  }

  /** Where a connection goes, with the routing key of a message if there is one. */
  public static String peer(Object connection, String key) {
    String peer = PEERS.get(connection);
    if (peer == null) {
      Object address = ADDRESS.get(connection);
      Object port = PORT.get(connection);
      peer = "rabbitmq:";
      if (address instanceof InetAddress && port instanceof Integer) {
        String host = ((InetAddress) address).getHostAddress();
        peer = "rabbitmq://" + (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
        PEERS.set(connection, peer);
      }
    }
    return key == null || key.isEmpty() ? peer : peer + "?routing_key=" + key;
  }
}
