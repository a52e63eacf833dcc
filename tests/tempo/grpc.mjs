// A call of tempopb.StreamingQuerier, as a client of gRPC makes it: HTTP/2 without TLS.
// grpc.mjs URL METHOD HEX, where HEX is the message. Prints its status and what came, as JSON.

import http2 from "node:http2";

const [url, method, hex] = process.argv.slice(2);
const message = Buffer.from(hex, "hex");
const frame = Buffer.alloc(5 + message.length);
frame.writeUInt32BE(message.length, 1);
message.copy(frame, 5);

const session = http2.connect(url);
const stream = session.request({
  ":method": "POST",
  ":path": `/tempopb.StreamingQuerier/${method}`,
  "content-type": "application/grpc",
  te: "trailers",
});
const parts = [];
let told = {};
stream.on("response", (headers) => (told = { ...told, ...headers }));
stream.on("trailers", (headers) => (told = { ...told, ...headers }));
stream.on("data", (part) => parts.push(part));
stream.on("end", () => {
  const bytes = Buffer.concat(parts);
  const messages = [];
  for (let at = 0; at < bytes.length; at += 5 + bytes.readUInt32BE(at + 1)) {
    messages.push(bytes.subarray(at + 5, at + 5 + bytes.readUInt32BE(at + 1)).toString("latin1"));
  }
  console.log(
    JSON.stringify({ status: told["grpc-status"], message: told["grpc-message"], messages }),
  );
  session.close();
});
stream.end(frame);
