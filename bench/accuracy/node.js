// Node.js: callbacks (STYLE `direct`), chains of async functions (`await`), timers between the
// calls (`timers`), and calls to Redis by a client that all requests share (`ioredis`, `node-redis`).
// See python/program.py for the notes.
"use strict";

const crypto = require("node:crypto");
const fs = require("node:fs");
const http = require("node:http");
const http2 = require("node:http2");
const https = require("node:https");
const path = require("node:path");

const { PORT, LEAF_PORT, TRUTH, CERTIFICATE, KEY } = process.env;
const style = process.env.STYLE || "direct";
const parallel = process.env.FAN_OUT === "parallel";
const fresh = process.env.CONNECTIONS === "fresh";
const overHttp2 = process.env.HTTP === "2";
const scheme = CERTIFICATE ? "https" : "http";
const certificate = CERTIFICATE && fs.readFileSync(CERTIFICATE);
const truth = fs.openSync(TRUTH, "a");

const tokens = () => Array.from({ length: parallel ? 3 : 2 }, () => crypto.randomBytes(8).toString("hex"));
const note = (path, made) => fs.writeSync(truth, `${path.slice(path.lastIndexOf("/") + 1)} ${made.join(" ")}\n`);
const work = (text) => crypto.createHash("sha256").update(text).update(Buffer.alloc(4096)).digest("hex");

// ---- calls, with a callback ------------------------------------------------

const agent = new (CERTIFICATE ? https : http).Agent({ keepAlive: !fresh, maxSockets: Infinity, maxFreeSockets: 1024 });
let session;

function call1(token, done) {
  const options = { port: LEAF_PORT, host: "127.0.0.1", path: `/leaf/${token}`, agent, ca: certificate };
  (CERTIFICATE ? https : http).get(options, (reply) => {
    let body = "";
    reply.setEncoding("utf8");
    reply.on("data", (piece) => (body += piece));
    reply.on("end", () => (reply.statusCode === 200 ? done(null, body) : done(new Error(`status ${reply.statusCode}`))));
  }).on("error", done);
}

function call2(token, done) {
  session ??= http2.connect(`${scheme}://127.0.0.1:${LEAF_PORT}`, { ca: certificate });
  const stream = session.request({ ":path": `/leaf/${token}` });
  let body = "";
  stream.setEncoding("utf8");
  stream.on("data", (piece) => (body += piece));
  stream.on("end", () => done(null, body));
  stream.on("error", done);
  stream.end();
}

// One client, and so one connection, for all requests. The library is loaded where it is used.
function redisCall() {
  const modules = path.join(__dirname, "..", "..", "target", "accuracy", "node_modules");
  let client;
  if (style === "ioredis") {
    client = new (require(path.join(modules, "ioredis")).Redis)({ host: "127.0.0.1", port: Number(LEAF_PORT) });
  } else {
    client = require(path.join(modules, "redis")).createClient({ url: `redis://127.0.0.1:${LEAF_PORT}` });
    client.on("error", console.error);
    client.connect();
  }
  return (token, done) => client.get(`leaf/${token}`).then((value) => done(null, `${value}`), done);
}

const call = ["ioredis", "node-redis"].includes(style) ? redisCall() : overHttp2 ? call2 : call1;
const called = (token) => new Promise((resolve, reject) => call(token, (error, body) => (error ? reject(error) : resolve(body))));

// ---- handlers, by style ----------------------------------------------------

function direct(made, done) {
  const replies = [];
  if (parallel) {
    for (const token of made) {
      call(token, (error, body) => {
        if (error) return done(error);
        if (replies.push(body) === made.length) done(null, work(replies.join()));
      });
    }
    return;
  }
  const next = () => {
    if (replies.length === made.length) return done(null, work(replies.join()));
    call(made[replies.length], (error, body) => {
      if (error) return done(error);
      replies.push(body);
      next();
    });
  };
  next();
}

// The usual layers of a service: a controller awaits a service, which awaits a client.
async function client(token) {
  const body = await called(token);
  return work(body);
}

async function service(made) {
  await null;
  if (parallel) return Promise.all(made.map(client));
  const replies = [];
  for (const token of made) replies.push(await client(token));
  return replies;
}

async function controller(made) {
  const replies = await service(made);
  return work(replies.join());
}

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const soon = () => new Promise((resolve) => setImmediate(resolve));

async function timers(made) {
  await sleep(Math.random() * 3);
  const one = async (token) => {
    await soon();
    const body = await called(token);
    await sleep(Math.random() * 3);
    return body;
  };
  if (parallel) return work((await Promise.all(made.map(one))).join());
  const replies = [];
  for (const token of made) replies.push(await one(token));
  return work(replies.join());
}

const promised = { await: controller, timers }[style];
const handle = promised ? (made, done) => promised(made).then((body) => done(null, body), done) : direct;

function serve(request, response) {
  const made = tokens();
  work(request.url);
  handle(made, (error, body) => {
    if (error) {
      console.error(error);
      response.statusCode = 500;
      return response.end();
    }
    note(request.url, made);
    response.setHeader("Content-Length", body.length);
    response.end(body);
  });
}

// Background calls, like a cache refresh.
function inBackground() {
  const token = tokens()[0];
  note("-", [token]);
  call(token, (error) => {
    if (error) console.error(error);
    setTimeout(inBackground, 5);
  });
}
if (process.env.BACKGROUND) inBackground();

const tls = CERTIFICATE && { cert: certificate, key: fs.readFileSync(KEY) };
let server;
if (overHttp2) server = tls ? http2.createSecureServer(tls, serve) : http2.createServer(serve);
else server = tls ? https.createServer(tls, serve) : http.createServer(serve);
server.keepAliveTimeout = 60000;
server.listen({ port: Number(PORT), host: "127.0.0.1", backlog: 1024 });
