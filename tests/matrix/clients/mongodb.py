"""MongoDB's protocol: successful and failing commands."""

import socket
import struct

from client import CERTIFICATE, HOST, PORT, context, did, modes


def sequential():
    import pymongo
    from pymongo.errors import PyMongoError

    secure = {"tls": True, "tlsCAFile": CERTIFICATE} if CERTIFICATE else {}
    client = pymongo.MongoClient(f"mongodb://{HOST}:{PORT}", maxPoolSize=1, **secure)
    users = client.shop.users
    for name, work in (
        ("insert users", lambda: users.insert_one({"_id": 1, "name": "geheim"})),
        ("insert users", lambda: users.insert_many([{"_id": n, "name": "hunter2"} for n in range(2, 50)])),
        ("find users", lambda: users.find_one({"name": "geheim"})),
        ("insert users", lambda: users.insert_one({"_id": 1})),
        ("update users", lambda: users.update_one({"_id": 1}, {"$set": {"name": "x" * 3000}})),
        ("find users", lambda: list(users.find({}))),
        ("nonsense", lambda: client.shop.command("nonsense")),
        ("delete users", lambda: users.delete_one({"_id": 2})),
        ("aggregate users", lambda: users.count_documents({})),
        ("drop users", lambda: users.drop()),
    ):
        try:
            work()
            did(name)
        except PyMongoError:
            did(name, failed=True)
    client.close()


def pipelined():
    """Several messages in one write, which no Python driver sends."""
    import bson

    commands = [
        ("drop users", {"drop": "users"}),
        ("insert users", {"insert": "users", "documents": [{"_id": 1}]}),
        ("find users", {"find": "users"}), ("nonsense", {"nonsense": 1}), ("count users", {"count": "users"}),
        ("insert users", {"insert": "users", "documents": [{"_id": 1}]}), ("find users", {"find": "users", "limit": 1}),
    ]
    with socket.create_connection((HOST, PORT)) as plain:
        client = context().wrap_socket(plain, server_hostname=HOST) if CERTIFICATE else plain
        messages = []
        for number, (_, command) in enumerate(commands, 1):
            content = struct.pack("<I", 0) + b"\0" + bson.encode(command | {"$db": "many"})
            messages.append(struct.pack("<iiii", 16 + len(content), number, 0, 2013) + content)
        client.sendall(b"".join(messages))
        stream, answers = client.makefile("rb"), {}
        while len(answers) < len(commands):
            length, _, to, _ = struct.unpack("<iiii", stream.read(16))
            answers[to] = bson.decode(stream.read(length - 16)[5:])
    for number, (name, _) in enumerate(commands, 1):
        did(name, failed=answers[number]["ok"] != 1 or bool(answers[number].get("writeErrors")))


modes(sequential=sequential, pipelined=pipelined)
