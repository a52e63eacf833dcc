// Node's HTTP/2, for scenarios.py: node.js server PORT | client PORT
const http2 = require("node:http2");

const [what, port] = process.argv.slice(2);
if (what === "server") {
  const server = http2.createServer();
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    stream.resume();
    const path = headers[":path"];
    if (path.startsWith("/refused")) {
      stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
    } else if (path.startsWith("/never")) {
      stream.respond({ ":status": 200 });
      stream.write("some");
    } else {
      stream.on("end", () => {
        stream.additionalHeaders({ ":status": 103, link: "</style.css>" });
        stream.respond({ ":status": 201, "x-request-id": "from-response" }, { waitForTrailers: true });
        stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": "1" }));
        stream.end("done\n");
      });
    }
  });
  server.listen(Number(port), "127.0.0.1");
} else {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  const ask = (headers, body, cancel) =>
    new Promise((resolve) => {
      const stream = session.request(headers);
      stream.on("error", () => {});
      stream.on("close", resolve);
      stream.on("data", () => cancel && stream.close(http2.constants.NGHTTP2_CANCEL));
      stream.end(body);
    });
  (async () => {
    const secrets = { cookie: "session=hunter2", authorization: "Bearer geheim" };
    await ask({ ":path": "/orders/42?token=hunter2&q=1", ":method": "PUT", ...secrets }, "x".repeat(3000));
    await ask({ ":path": "/refused" });
    await ask({ ":path": "/never" }, undefined, true);
    await Promise.all([1, 2, 3].map((n) => ask({ ":path": `/orders/${n}`, ":method": "POST" }, "geheim")));
    session.close();
  })();
}
