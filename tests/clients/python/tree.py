"""Sends the known tree with one of Python's clients: tree.py CLIENT SERVICE ENDPOINT. Prints the
trace's id.
"""

import sys
import time
from urllib.parse import urlsplit


def opentelemetry(exporter, service):
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanKind, Status, StatusCode

    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("tree")
    with tracer.start_as_current_span("checkout", kind=SpanKind.SERVER) as root:
        with tracer.start_as_current_span("price") as price:
            price.set_attribute("items", 3)
            price.add_event("cache miss")
        with tracer.start_as_current_span("charge", kind=SpanKind.CLIENT) as charge:
            charge.set_status(Status(StatusCode.ERROR, "card declined"))
    provider.shutdown()
    return root.get_span_context().trace_id


def otlp_grpc(service, endpoint):
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    return opentelemetry(OTLPSpanExporter(endpoint=endpoint, insecure=True), service)


def otlp_http(service, endpoint):
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    return opentelemetry(OTLPSpanExporter(endpoint=endpoint, compression=Compression.Gzip), service)


def zipkin_json(service, endpoint):
    from opentelemetry.exporter.zipkin.json import ZipkinExporter
    return opentelemetry(ZipkinExporter(endpoint=endpoint), service)


def py_zipkin(encoding, content_type):
    def send(service, endpoint):
        import urllib.request

        from py_zipkin import Encoding, Kind
        from py_zipkin.transport import BaseTransportHandler
        from py_zipkin.zipkin import zipkin_span

        class Post(BaseTransportHandler):
            def get_max_payload_bytes(self):
                return None

            def send(self, payload):
                body = payload if isinstance(payload, bytes) else payload.encode()
                request = urllib.request.Request(endpoint, body, {"Content-Type": content_type})
                urllib.request.urlopen(request, timeout=10).read()

        root = zipkin_span(service_name=service, span_name="checkout", transport_handler=Post(), sample_rate=100.0,
                           kind=Kind.SERVER, encoding=getattr(Encoding, encoding))
        with root:
            with zipkin_span(service_name=service, span_name="price", annotations={"cache miss": time.time()}) as price:
                price.update_binary_annotations({"items": "3"})
            with zipkin_span(service_name=service, span_name="charge", kind=Kind.CLIENT) as charge:
                charge.update_binary_annotations({"error": "card declined"})
            trace = root.zipkin_attrs.trace_id
        return int(trace, 16)
    return send


def jaeger_udp(service, endpoint):
    from jaeger_client import Config

    at = urlsplit(endpoint)
    config = Config(config={"sampler": {"type": "const", "param": 1},
                            "local_agent": {"reporting_host": at.hostname, "reporting_port": at.port}},
                    service_name=service, validate=True)
    tracer = config.initialize_tracer()
    with tracer.start_active_span("checkout", tags={"span.kind": "server"}) as root:
        with tracer.start_active_span("price", tags={"items": 3}) as price:
            price.span.log_kv({"event": "cache miss"})
        with tracer.start_active_span("charge", tags={"span.kind": "client"}) as charge:
            charge.span.set_tag("error", True)
            charge.span.log_kv({"event": "error", "error.kind": "card declined"})
    # It reports in the background, without a notification.
    time.sleep(2)
    tracer.close()
    return root.span.trace_id


CLIENTS = {
    "otlp-grpc": otlp_grpc,
    "otlp-http": otlp_http,
    "zipkin-json": zipkin_json,
    "py-zipkin-v1-thrift": py_zipkin("V1_THRIFT", "application/x-thrift"),
    "py-zipkin-v1-json": py_zipkin("V1_JSON", "application/json"),
    "py-zipkin-v2-protobuf": py_zipkin("V2_PROTO3", "application/x-protobuf"),
    "jaeger-udp": jaeger_udp,
}

if __name__ == "__main__":
    client, service, endpoint = sys.argv[1:]
    print(format(CLIENTS[client](service, endpoint), "032x"))
