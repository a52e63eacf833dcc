"""Kafka: topics created, records sent one by one and pipelined, and fetched."""

from client import CERTIFICATE, HOST, PORT, did, modes

SECURE = {"security_protocol": "SSL", "ssl_cafile": CERTIFICATE} if CERTIFICATE else {}
AT = {"bootstrap_servers": f"{HOST}:{PORT}", **SECURE}
COUNT = 8


def create(topic):
    """A topic for this mode and run."""
    from kafka.admin import KafkaAdminClient, NewTopic
    from kafka.errors import TopicAlreadyExistsError

    admin = KafkaAdminClient(**AT)
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])
        did(f"CreateTopics {topic}")
    except TopicAlreadyExistsError:
        did(f"CreateTopics {topic}", True)
    admin.close()


def sequential():
    from kafka import KafkaConsumer, KafkaProducer

    for _ in range(2):
        create("orders")
    producer = KafkaProducer(**AT, acks="all", linger_ms=0, enable_idempotence=False)
    for _ in range(3):
        producer.send("orders", b"geheim", partition=0).get(10)
        did("produce orders")
    producer.close()
    consumer = KafkaConsumer("orders", **AT, auto_offset_reset="earliest", enable_auto_commit=False, group_id=None)
    if not consumer.poll(timeout_ms=10_000):
        raise SystemExit("nothing was fetched")
    did("fetch orders")
    consumer.close()


def pipelined():
    """Each record is a separate request, with up to five unanswered ones."""
    from kafka import KafkaProducer

    create("many")
    producer = KafkaProducer(**AT, acks="all", linger_ms=0, batch_size=0, max_in_flight_requests_per_connection=5,
                             enable_idempotence=False)
    producer.partitions_for("many")
    for sent in [producer.send("many", b"geheim", partition=0) for _ in range(COUNT)]:
        sent.get(10)
        did("produce many")
    producer.close()


modes(sequential=sequential, pipelined=pipelined)
