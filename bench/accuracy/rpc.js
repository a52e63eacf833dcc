// grpc-js on both sides: all requests of a client share a connection, and so do all calls. See
// python/program.py for the notes.
"use strict";

const crypto = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");
const modules = path.join(__dirname, "..", "..", "target", "accuracy", "node_modules");
const grpc = require(path.join(modules, "@grpc", "grpc-js"));

const { PORT, LEAF_PORT, TRUTH } = process.env;
const parallel = process.env.FAN_OUT === "parallel";
const fresh = process.env.CONNECTIONS === "fresh";
const truth = fs.openSync(TRUTH, "a");

const raw = { serialize: (bytes) => bytes, deserialize: (bytes) => bytes };
const tokens = () => Array.from({ length: parallel ? 3 : 2 }, () => crypto.randomBytes(8).toString("hex"));
const note = (method, made) => fs.writeSync(truth, `${method.slice(method.lastIndexOf("/") + 1)} ${made.join(" ")}\n`);
const work = (text) => crypto.createHash("sha256").update(text).update(Buffer.alloc(4096)).digest();

const client = () => new grpc.Client(`127.0.0.1:${LEAF_PORT}`, grpc.credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
const shared = fresh ? null : client();

function call(token) {
  const one = shared ?? client();
  return new Promise((resolve, reject) => {
    one.makeUnaryRequest(`/leaf/${token}`, raw.serialize, raw.deserialize, Buffer.alloc(0), (error, body) => {
      if (fresh) one.close();
      return error ? reject(error) : resolve(body);
    });
  });
}

async function handle(method) {
  const made = tokens();
  work(method);
  let replies = [];
  if (parallel) replies = await Promise.all(made.map(call));
  else for (const token of made) replies.push(await call(token));
  note(method, made);
  return work(Buffer.concat(replies));
}

// Background calls, like a cache refresh.
function inBackground() {
  const token = tokens()[0];
  note("-", [token]);
  call(token).catch(console.error).then(() => setTimeout(inBackground, 5));
}
if (process.env.BACKGROUND) inBackground();

// grpc-js looks methods up by name: this table has every method. A method's name is the token.
const server = new grpc.Server({ "grpc.max_concurrent_streams": 1000 });
server.handlers = {
  has: () => true,
  get: (method) => ({
    path: method,
    type: "unary",
    ...raw,
    func: (request, done) => handle(method).then((body) => done(null, body), done),
  }),
};
server.bindAsync(`127.0.0.1:${PORT}`, grpc.ServerCredentials.createInsecure(), (error) => {
  if (error) throw error;
});
