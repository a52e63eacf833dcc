"""One ClickHouse server of a cluster, from chDB's library.

    node.py LIBRARY DIRECTORY    (runs until it is killed)

The library contains ClickHouse's own HTTP and native interfaces. Its command-line entry point
(`query_stable_v2`) opens them on SYSTEM START LISTEN. The library also contains what a replica
needs, but only the server's main program, which is not included, activates it. So this script
patches the code in memory, after checking that it is the expected one:

- `Context::getInterserverIOAddress` and `getInterserverScheme` return where other replicas reach
  this one: over HTTP, at the second listen host and the HTTP port;
- `createHandlerFactory` makes the second HTTP interface the interserver interface;
- parts are fetched without credentials, as by a server without `interserver_http_credentials`;
- a client that resets its connection ends the connection, not the process.
"""

import ctypes
import mmap
import os
import struct
import sys
from pathlib import Path
from xml.etree import ElementTree

# Addresses and expected code in libchdb.so of @chdb/lib-linux-x64-gnu 26.7.3-stable.1, which
# install() in cluster.py ensures.
KNOWN = 0x0F20EF00  # query_stable_v2
ADDRESS = 0x1417C9C0  # Context::getInterserverIOAddress() const
ADDRESS_CODE = bytes.fromhex("4156534883ec484c8b36490fbe8e67010000")
ADDRESS_ROOM = 0x1417CAB4 - ADDRESS
SCHEME = 0x1417CAC0  # Context::getInterserverScheme() const
SCHEME_CODE = bytes.fromhex("488b0680b88701000000")
CREDENTIALS = 0x179C6000  # mov rax, [rbx + 192], where a part is fetched
CREDENTIALS_CODE = bytes.fromhex("488b83c0000000")
UNCAUGHT = 0x0F113480  # KillingErrorHandler::exception: push rax; call std::terminate
UNCAUGHT_CODE = bytes.fromhex("50e8fa66e211")
HTTP_JUMP = 0x18395D32  # je MAKE_HTTP, in createHandlerFactory
MAKE_HTTP = 0x18395FFA
MAKE_INTERSERVER = 0x18395DBC

STRING = 24  # bytes of a std::string; zeros are an empty one
RETURN = b"\x48\x89\xf8\xc3"  # mov rax, rdi; ret


def main():
    library, directory = sys.argv[1], Path(sys.argv[2])
    config = ElementTree.parse(directory / "config.xml").getroot()
    host = config.findall("listen_host")[1].text
    port = int(config.find("http_port").text)
    chdb = ctypes.CDLL(library)
    redirect(chdb, host, port)
    statement = ("SYSTEM START LISTEN QUERIES ALL; SELECT count() FROM numbers(1000000) "
                 "WHERE NOT ignore(sleepEachRow(3)) SETTINGS max_block_size = 1")
    arguments = ["clickhouse", f"--config-file={directory}/config.xml",
                 f"--path={directory}/data", "--multiquery", f"--query={statement}"]
    arguments = [argument.encode() for argument in arguments]
    chdb.query_stable_v2.restype = ctypes.POINTER(Result)
    os.chdir(directory)
    result = chdb.query_stable_v2(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments))
    sys.exit((result.contents.error or b"it ended").decode())


class Result(ctypes.Structure):
    """local_result_v2 of chdb.h."""

    _fields_ = [("buffer", ctypes.c_void_p), ("length", ctypes.c_size_t),
                ("vector", ctypes.c_void_p), ("elapsed", ctypes.c_double),
                ("rows", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("error", ctypes.c_char_p)]


def redirect(chdb, host, port):
    base = ctypes.cast(chdb.query_stable_v2, ctypes.c_void_p).value - KNOWN
    jump = b"\x0f\x84" + relative(HTTP_JUMP + 6, MAKE_HTTP)
    expected = {ADDRESS: ADDRESS_CODE, SCHEME: SCHEME_CODE, HTTP_JUMP: jump,
                CREDENTIALS: CREDENTIALS_CODE, UNCAUGHT: UNCAUGHT_CODE}
    for at, code in expected.items():
        if ctypes.string_at(base + at, len(code)) != code:
            sys.exit("the library is not the one that this was written for")
    answer = address(host, port) + RETURN
    chooser = ADDRESS + len(answer)
    choice = choose(chooser)
    nobody = chooser + len(choice)
    code = answer + choice + bytes(2 * STRING)
    assert len(code) <= ADDRESS_ROOM
    write(base + ADDRESS, code)
    write(base + SCHEME, string("http") + RETURN)
    write(base + HTTP_JUMP, b"\x0f\x84" + relative(HTTP_JUMP + 6, chooser))
    write(base + UNCAUGHT, b"\xc3")  # ret
    # lea rax, [nobody]
    write(base + CREDENTIALS, b"\x48\x8d\x05" + relative(CREDENTIALS + 7, nobody))


def string(text):
    """Code that puts a std::string into the caller's return slot. The text is short enough for the
    inline buffer.
    """
    text = text.encode()
    assert len(text) < STRING - 1
    code = b""
    for offset, (word,) in enumerate(struct.iter_unpack("<Q", text.ljust(STRING - 1, b"\0")
                                                        + bytes([len(text)]))):
        code += b"\x48\xb8" + struct.pack("<Q", word)  # mov rax, word
        code += b"\x48\x89\x47" + bytes([8 * offset])  # mov [rdi + 8 * offset], rax
    return code


def address(host, port):
    """Code that creates a std::pair<String, UInt16>."""
    return string(host) + b"\x66\xc7\x47\x18" + struct.pack("<H", port)  # mov word [rdi + 24], port


def choose(at):
    """Code that continues with an HTTP interface at the first call, and with an interserver
    interface later.
    """
    code = b"\x80\x3d" + struct.pack("<i", 18) + b"\0"  # cmp byte [once], 0
    code += b"\x0f\x85" + relative(at + 13, MAKE_INTERSERVER)  # jne
    code += b"\xc6\x05" + struct.pack("<i", 5) + b"\1"  # mov byte [once], 1
    code += b"\xe9" + relative(at + 25, MAKE_HTTP)  # jmp
    return code + b"\0"  # once


def relative(after, target):
    return struct.pack("<i", target - after)


def write(address, code):
    page = address & -mmap.PAGESIZE
    length = address + len(code) - page
    everything = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(length), everything) != 0:
        sys.exit(f"the library cannot be written to: {os.strerror(ctypes.get_errno())}")
    ctypes.memmove(address, code, len(code))


if __name__ == "__main__":
    main()
