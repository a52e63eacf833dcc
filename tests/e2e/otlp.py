"""OTLP trace requests in protobuf, encoded by hand, so that the tests need no packages."""

import http.client
import os
import struct
import time


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(field, data):
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(key, value):
    """KeyValue with a string value."""
    return _bytes(1, key.encode()) + _bytes(2, _bytes(1, value.encode()))


def spans(count, service="bad-input", padding=0):
    """ExportTraceServiceRequest with this many spans, each in its own trace, with `padding`
    incompressible bytes.
    """
    now = time.time_ns()
    body = b""
    for _ in range(count):
        span = (_bytes(1, os.urandom(16)) + _bytes(2, os.urandom(8)) + _bytes(5, b"work")
                + _varint(6 << 3) + _varint(2)
                + _varint(7 << 3 | 1) + struct.pack("<Q", now - 1_000_000)
                + _varint(8 << 3 | 1) + struct.pack("<Q", now)
                + (_bytes(9, _text("padding", os.urandom(padding // 2).hex())) if padding else b""))
        body += _bytes(2, span)
    resource = _bytes(1, _bytes(1, _text("service.name", service)))
    return _bytes(1, resource + _bytes(2, body))


def post(port, body, content_type="application/x-protobuf", headers=None, timeout=60):
    """(status, headers, body); status 0 if the server closed the connection without a response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", "/v1/traces", body, {"Content-Type": content_type} | (headers or {}))
    except OSError:
        pass  # refused during the body: there may still be a response
    try:
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    except (OSError, http.client.HTTPException):
        return 0, {}, b""
    finally:
        connection.close()
