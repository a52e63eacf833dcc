"""Kafka: a broker with kcat, kafka-python, confluent-kafka and the Java client. Needs Debian's
kcat, `pip install kafka-python confluent-kafka`, and in KAFKA_LIB a directory with the JARs of
org.apache.kafka:kafka_2.13 and :kafka-tools (3.9.1 was used) and of all their dependencies, as
`mvn dependency:copy-dependencies` creates it.
"""

import os

from relay import run
from servers import Kafka

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
class Guarded(Kafka):
    protocol = "SASL_PLAINTEXT"


def tool(name, relay, *arguments, text=b""):
    """One of Kafka's own tools."""
    return run(
        "java", "-Xmx128m", "-cp", f"{os.environ['KAFKA_LIB']}/*", name,
        "--bootstrap-server", f"127.0.0.1:{relay.port}", *arguments, input=text,
    )


def kcat():
    with Kafka() as server:
        relay = server.relay
        at = ("kcat", "-b", f"127.0.0.1:{relay.port}", "-q")
        run(*at, "-P", "-t", "orders", "-H", f"traceparent={PARENT}", "-k", "geheim", input=b"geheim")
        run(*at, "-P", "-t", "orders", input=b"geheim one\ngeheim two\ngeheim three\n")
        run(*at, "-P", "-t", "orders", "-z", "gzip", input=b"geheim " * 1000)
        # This one has no response.
        run(*at, "-P", "-t", "orders", "-X", "acks=0", input=b"geheim")
        run(*at, "-C", "-t", "orders", "-o", "beginning", "-e")
        run(*at, "-P", "-t", "orders", "-X", "message.max.bytes=3000000", "-D", "@",
            input=b"geheim" * 300_000)
        relay.write("kafka", "kcat")


def drivers():
    """kafka-python, and transactions with librdkafka."""
    from confluent_kafka import Producer
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic
    from kafka.errors import KafkaError

    with Kafka() as server:
        relay = server.relay
        at = f"127.0.0.1:{relay.port}"
        admin = KafkaAdminClient(bootstrap_servers=at, client_id="admin")
        admin.create_topics([NewTopic("invoices", 2, 1)])
        for wrong in (lambda: admin.create_topics([NewTopic("invoices", 1, 1)]),
                      lambda: admin.delete_topics(["missing"])):
            try:
                wrong()
            except KafkaError:
                pass
        admin.close()
        producer = KafkaProducer(bootstrap_servers=at, client_id="billing", linger_ms=50)
        for number in range(6):
            producer.send("invoices", b"geheim", key=b"geheim", partition=number % 2)
        producer.send("receipts", b"geheim", headers=[("traceparent", PARENT.encode())])
        producer.flush()
        producer.close()
        consumer = KafkaConsumer(
            "invoices", bootstrap_servers=at, group_id="books", auto_offset_reset="earliest",
            enable_auto_commit=False, client_id="reader",
        )
        seen = 0
        while seen < 6:
            seen += sum(map(len, consumer.poll(timeout_ms=1000).values()))
        consumer.commit()
        consumer.close()
        transactional = Producer({"bootstrap.servers": at, "transactional.id": "t-1"})
        transactional.init_transactions(10)
        transactional.begin_transaction()
        transactional.produce("invoices", b"geheim", partition=0)
        transactional.commit_transaction(10)
        transactional.begin_transaction()
        transactional.produce("invoices", b"geheim", partition=1)
        transactional.flush(10)
        transactional.abort_transaction(10)
        relay.write("kafka", "drivers")


def java():
    """Kafka's own client, which refers to topics by id."""
    with Kafka() as server:
        relay = server.relay
        tool("org.apache.kafka.tools.TopicCommand", relay, "--create", "--topic", "events")
        tool("kafka.tools.ConsoleProducer", relay, "--topic", "events",
             "--property", "parse.headers=true",
             text=f"traceparent:{PARENT}\tgeheim\n".encode())
        tool("kafka.tools.ConsoleProducer", relay, "--topic", "events",
             text=b"geheim\n" * 3 + b"geheim" * 20_000 + b"\n")
        tool("org.apache.kafka.tools.consumer.ConsoleConsumer", relay, "--topic", "events",
             "--from-beginning", "--max-messages", "5", "--group", "watchers")
        relay.write("kafka", "java")


def passwords():
    with Guarded() as server:
        relay = server.relay
        for password in ("geheim", "hunter2"):
            run("kcat", "-b", f"127.0.0.1:{relay.port}", "-L", "-m", "2",
                "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN",
                "-X", "sasl.username=shop", "-X", f"sasl.password={password}")
        run("kcat", "-b", f"127.0.0.1:{relay.port}", "-P", "-t", "vault",
            "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN",
            "-X", "sasl.username=shop", "-X", "sasl.password=geheim", input=b"geheim")
        relay.write("kafka", "passwords")


SCENARIOS = (kcat, drivers, java, passwords)
