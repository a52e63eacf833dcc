"""MQTT 5: messages with each quality of service, to a client that subscribes to them itself."""

import threading
import time

from client import CERTIFICATE, HOST, PORT, context, did, modes
from paho.mqtt import client as paho


class Speaker:
    """A connection that subscribes to its own messages."""

    def __enter__(self):
        self.heard = threading.Semaphore(0)
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, "speaker", protocol=paho.MQTTv5)
        if CERTIFICATE:
            self.client.tls_set_context(context())
        subscribed = threading.Event()
        self.client.on_message = lambda *_: self.heard.release()
        self.client.on_subscribe = lambda *_: subscribed.set()
        self.client.connect(HOST, PORT)
        self.client.loop_start()
        self.client.subscribe("home/#", 2)
        if not subscribed.wait(5):
            raise SystemExit("no answer to subscribe")
        did("subscribe home/#")
        return self

    def hear(self, topics):
        for topic in topics:
            if not self.heard.acquire(timeout=5):
                raise SystemExit("a message is missing")
            did(f"deliver {topic}")
        # Waits for the last of its acknowledgements.
        time.sleep(0.2)

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()


def sequential():
    with Speaker() as speaker:
        for number, topic in enumerate(("home/door", "home/window", "home/kitchen/temp")):
            speaker.client.publish(topic, b"geheim", number).wait_for_publish(5)
            did(f"publish {topic}")
            speaker.hear([topic])
        # Not allowed.
        said = speaker.client.publish("forbidden", b"geheim", 1)
        said.wait_for_publish(5)
        did("publish forbidden", True, server_failed=True)


def pipelined():
    topics = [f"home/{name}" for name in ("door", "window", "roof", "cellar", "garden", "gate", "car", "attic")]
    with Speaker() as speaker:
        sent = [speaker.client.publish(topic, b"geheim", 1 + number % 2) for number, topic in enumerate(topics)]
        for topic, message in zip(topics, sent):
            message.wait_for_publish(5)
            did(f"publish {topic}")
        speaker.hear(topics)


modes(sequential=sequential, pipelined=pipelined)
