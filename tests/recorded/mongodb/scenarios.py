"""FerretDB, which implements MongoDB's protocol over SQLite, with Python and Go drivers and
hand-written messages.

Needs FerretDB 1.24 (`go build ./cmd/ferretdb` in its sources), whose program FERRETDB names, `pip
install pymongo`, and for `go` a Go toolchain. MongoDB itself is not free software, and no
distribution packages it.
"""

import socket
import struct
import subprocess

from relay import Relay
from servers import Ferretdb


def pymongo():
    import pymongo
    from pymongo.errors import PyMongoError

    with Ferretdb() as server:
        relay = Relay(server.port)
        # One connection besides the monitoring one.
        client = pymongo.MongoClient(f"mongodb://127.0.0.1:{relay.port}", maxPoolSize=1)
        shop = client.shop
        shop.users.insert_one({"_id": 1, "name": "geheim"})
        shop.users.insert_many([{"_id": n, "name": "hunter2"} for n in range(2, 120)])
        shop.users.find_one({"name": "geheim"})
        list(shop.users.find({"_id": {"$gt": 1}}, batch_size=50))
        shop.users.update_one({"_id": 1}, {"$set": {"name": "geheim" * 600}})
        shop.users.find_one({"_id": 1})
        shop.users.delete_one({"_id": 2})
        shop.users.count_documents({"name": "hunter2"})
        shop.users.distinct("name")
        list(shop.users.aggregate([{"$match": {"name": "hunter2"}}, {"$limit": 1}]))
        shop.users.create_index("email", unique=True, sparse=True)
        for attempt in (
            lambda: shop.users.insert_one({"_id": 1, "name": "geheim"}),
            lambda: shop.users.update_one({"_id": 1}, {"$inc": {"name": "geheim"}}),
            lambda: shop.users.find_one({"$nonsense": "geheim"}),
            lambda: shop.command("nonsense", "geheim"),
            lambda: shop.command("collMod", "nowhere"),
        ):
            try:
                attempt()
            except PyMongoError:
                pass
        shop.users.estimated_document_count()
        shop.list_collection_names()
        shop.users.drop()
        client.admin.command("ping")
        client.close()
        relay.write("mongodb", "pymongo")


GO = """
package main

import (
	"context"
	"os"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

func main() {
	ctx := context.Background()
	client, err := mongo.Connect(ctx, options.Client().ApplyURI(os.Args[1]).SetMaxPoolSize(1))
	if err != nil {
		panic(err)
	}
	users := client.Database("shop").Collection("users")
	users.InsertOne(ctx, bson.M{"_id": 1, "name": "geheim"})
	users.InsertOne(ctx, bson.M{"_id": 1, "name": "geheim"})
	users.FindOne(ctx, bson.M{"name": "geheim"})
	users.UpdateOne(ctx, bson.M{"_id": 1}, bson.M{"$set": bson.M{"name": "hunter2"}})
	users.FindOneAndDelete(ctx, bson.M{"_id": 1})
	client.Disconnect(ctx)
}
"""


def go():
    with Ferretdb() as server:
        relay = Relay(server.port)
        (server.directory / "main.go").write_text(GO)
        for command in (
            ["go", "mod", "init", "shop"],
            ["go", "mod", "edit", "-require=go.mongodb.org/mongo-driver@v1.16.0"],
            ["go", "mod", "tidy"],
            ["go", "build", "-o", "shop", "."],
            ["./shop", f"mongodb://127.0.0.1:{relay.port}"],
        ):
            subprocess.run(command, check=True, cwd=server.directory, timeout=300)
        relay.write("mongodb", "go")


def messages():
    """Hand-written messages: several in one write, and older kinds."""
    import bson

    with Ferretdb() as server:
        relay = Relay(server.port)
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.settimeout(0.3)
            number = 0

            def message(opcode, content):
                nonlocal number
                number += 1
                return struct.pack("<iiii", 16 + len(content), number, 0, opcode) + content

            def command(flags=0, sequence=None, **document):
                content = struct.pack("<I", flags) + b"\0" + bson.encode(document)
                if sequence:
                    name, documents = sequence
                    text = name.encode() + b"\0" + b"".join(map(bson.encode, documents))
                    content += b"\1" + struct.pack("<i", 4 + len(text)) + text
                return message(2013, content)

            def ask(*messages):
                client.sendall(b"".join(messages))
                try:
                    while client.recv(65536):
                        pass
                except TimeoutError:
                    pass

            hello = bson.encode({"isMaster": 1, "helloOk": True})
            ask(message(2004, struct.pack("<I", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1)
                        + hello))
            shop = {"$db": "shop"}
            ask(command(insert="users", ordered=True, **shop,
                        sequence=("documents", [{"_id": n, "name": "geheim"} for n in (1, 2)])))
            ask(command(find="users", filter={"name": "geheim"}, **shop),
                command(count="nowhere", **shop),
                command(nonsense=1, **shop))
            ask(command(insert="users", documents=[{"_id": 1, "name": "geheim"}], **shop))
            ask(command(ping=1, **{"$db": "admin"}))
            ask(command(find="users", limit=1, **shop))
        relay.write("mongodb", "messages")


SCENARIOS = (pymongo, go, messages)
