"""MQTT: mosquitto with its own clients and Paho. Needs Debian's mosquitto and mosquitto-clients,
and `pip install paho-mqtt`.
"""

import threading
import time

from relay import Relay, run
from servers import Mosquitto

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def tools():
    """Version 3.1.1 with each quality of service."""
    with Mosquitto() as server:
        relay = Relay(server.port)
        at = ("-h", "127.0.0.1", "-p", relay.port, "-i")
        listener = threading.Thread(target=run, args=(
            "mosquitto_sub", *at, "listener", "-q", "2", "-C", "5", "-t", "home/+/temp",
            "-t", "home/sensor42/#", "-u", "shop", "-P", "geheim",
        ))
        listener.start()
        time.sleep(0.5)
        for quality in (0, 1, 2):
            run("mosquitto_pub", *at, "speaker", "-q", quality, "-t", "home/sensor42/temp",
                "-m", "geheim")
        run("mosquitto_pub", *at, "speaker", "-q", "1", "-t", "home/kitchen/temp",
            "-m", "geheim" * 20_000)
        # One line, one message.
        run("mosquitto_pub", *at, "speaker", "-q", "1", "-t", "home/kitchen/temp", "-l",
            input=b"geheim\n" * 3)
        listener.join()
        run("mosquitto_pub", *at, "stranger", "-t", "home/x", "-m", "m", "-u", "shop",
            "-P", "hunter2")
        relay.write("mqtt", "tools")


def connect(relay, name, **options):
    """A connected client of version 5."""
    from paho.mqtt import client as paho

    client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
    for key, value in options.items():
        setattr(client, key, value)
    client.connect("127.0.0.1", relay.port)
    client.loop_start()
    while not client.is_connected():
        time.sleep(0.01)
    return client


def properties(**wanted):
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    made = Properties(PacketTypes.PUBLISH)
    for name, value in wanted.items():
        setattr(made, name, value)
    return made


def version5():
    """Properties, aliases, many messages at once, and forbidden operations."""
    with Mosquitto() as server:
        relay = Relay(server.port)
        seen, all_seen = [], threading.Event()

        def take(client, userdata, message):
            seen.append(message)
            if len(seen) == 12:
                all_seen.set()

        listener = connect(relay, "listener", on_message=take)
        listener.subscribe([("home/#", 2)])
        listener.subscribe("home/else/#", 1)
        time.sleep(0.2)
        speaker = connect(relay, "speaker")
        traced = properties(UserProperty=[("traceparent", PARENT), ("x-request-id", "r-1"),
                                          ("tenant", "geheim")])
        speaker.publish("home/door/open", b"geheim", 1, properties=traced).wait_for_publish(5)
        speaker.publish("home/door/open", b"geheim", 0, properties=traced)
        for number in range(3):
            topic = "" if number else "home/window/open"
            speaker.publish(topic, b"geheim", 1, properties=properties(TopicAlias=1))
            time.sleep(0.05)
        sent = [speaker.publish(f"home/n{number}/x", b"geheim" * number, 1 + number % 2)
                for number in range(7)]
        for one in sent:
            one.wait_for_publish(5)
        speaker.publish("forbidden/x", b"geheim", 1).wait_for_publish(5)
        all_seen.wait(5)
        time.sleep(0.2)
        listener.unsubscribe("home/#")
        time.sleep(0.2)
        # The same client id again: the previous connection is closed.
        other = connect(relay, "speaker")
        time.sleep(0.2)
        for client in (listener, other, speaker):
            client.disconnect()
            client.loop_stop()
        relay.write("mqtt", "version5")


SCENARIOS = (tools, version5)
