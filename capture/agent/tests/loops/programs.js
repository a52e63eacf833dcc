// The programs of loops.rs: a backend, a front that calls it, and a load generator. Every request
// has a token in its path, and so do its calls.
"use strict";

const http = require("node:http");

const [role, port, ...rest] = process.argv.slice(2);
const CALLS = 3;

function get(agent, to, path) {
  return new Promise((resolve, reject) => {
    const asked = http.get({ host: "127.0.0.1", port: to, path, agent }, (reply) => {
      reply.resume();
      reply.on("end", resolve);
    });
    asked.on("error", reject);
  });
}

function backend() {
  http.createServer((_, reply) => setTimeout(() => reply.end("done"), Math.random() * 5)).listen(port, "127.0.0.1");
}

// How a front handles a request, by its first argument after the backend's port.
const ways = {
  async sequential(call) {
    for (let number = 0; number < CALLS; number++) await call(number);
  },
  async parallel(call) {
    await Promise.all(Array.from({ length: CALLS }, (_, number) => call(number)));
  },
  async timers(call) {
    for (let number = 0; number < CALLS; number++) {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
      await call(number);
    }
  },
};

function front(behind, way, connections) {
  const agent = new http.Agent({
    keepAlive: connections !== "fresh",
    // Two connections for all requests: calls wait for a free one.
    maxSockets: connections === "queued" ? 2 : Infinity,
    maxFreeSockets: 256,
  });
  http.createServer(async (asked, reply) => {
    await ways[way]((number) => get(agent, behind, `/${asked.url.slice(1)}/${number}`));
    reply.end("done");
  }).listen(port, "127.0.0.1");
}

// Sends `requests` requests, `concurrency` at a time. Their tokens begin with `letter`.
async function load(letter, concurrency, requests) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: 256 });
  let next = 0;
  const worker = async () => {
    while (next < requests) {
      const number = String(next++).padStart(8, "0");
      await get(agent, port, `/${letter}${number}w${process.pid}`);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  agent.destroy();
}

if (role === "backend") backend();
else if (role === "front") front(Number(rest[0]), rest[1], rest[2]);
else load(rest[0], Number(rest[1]), Number(rest[2])).catch((error) => {
  console.error(error);
  process.exit(1);
});
