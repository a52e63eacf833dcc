package io.spanwise.boot;

import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.Map;

/** What is known of RocketMQ's messages. */
public final class Rocket {
  private Rocket() {}

  /** A broker's address and the number of a queue. */
  public static String peer(String broker, int queue) {
    return (broker == null ? "rocketmq:" : "rocketmq://" + broker) + "?partition=" + queue;
  }

  public static String peer(SocketAddress broker, int queue, String group) {
    String address = null;
    if (broker instanceof InetSocketAddress) {
      InetSocketAddress known = (InetSocketAddress) broker;
      address = known.getHostString() + ":" + known.getPort();
    }
    String peer = peer(address, queue);
    return group == null ? peer : peer + "&group=" + group;
  }

  public static String withMessage(String peer, long offset, String id) {
    return id == null ? peer : peer + "&offset=" + offset + "&id=" + id;
  }

  public static String withCount(String peer, int messages) {
    return peer + "&count=" + messages;
  }

  /** The keys that a program gave to a message. */
  public static String withKeys(String peer, String keys) {
    return Kafka.withKey(peer, keys);
  }

  /** Begins to work on messages. A span that this thread's last messages left open is ended. */
  public static void process(String topic, String peer, Map<String, String> properties) {
    Messages.processed(null);
    Messages.process("process", topic, peer, properties);
  }
}
