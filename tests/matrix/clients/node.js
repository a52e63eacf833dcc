// HTTP/1 and HTTP/2 of Node.js: node.js KIND serve PORT [CERTIFICATE KEY], or
// node.js KIND MODE PORT [CERTIFICATE], where KIND is http1 or http2.
const fs = require("node:fs");
const [kind, mode, port, certificate, key] = process.argv.slice(2);
const library = require(kind === "http2" ? "node:http2" : certificate ? "node:https" : "node:http");
const codes = { index: 200, missing: 404, gone: 503, empty: 204 };
const words = Object.keys(codes);
const paths = Array.from({ length: 20 }, (_, n) => `/${words[n % 4]}-${String.fromCharCode(97 + n)}`);

function did(path, code) {
  console.log(JSON.stringify({ op: `GET ${path}`, failed: code >= 400, code, server_failed: code >= 500 }));
}

function serve() {
  const answer = (request, response) => {
    const [word] = request.url.slice(1).split("-");
    setTimeout(() => {
      response.statusCode = codes[word];
      response.end(codes[word] === 204 ? undefined : "geheim\n");
    }, (request.url.charCodeAt(request.url.length - 1) % 4) * 3);
  };
  const files = certificate ? [{ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) }] : [];
  const secure = kind === "http2" && certificate ? library.createSecureServer : library.createServer;
  secure(...files, answer).listen(Number(port), "127.0.0.1");
}

async function ask1() {
  const trust = certificate ? { ca: fs.readFileSync(certificate) } : {};
  const agent = new library.Agent({ keepAlive: true, maxSockets: 1 });
  for (const path of paths) {
    await new Promise((resolve, reject) => {
      const request = library.get({ host: "127.0.0.1", port, path, agent, ...trust }, (response) => {
        response.resume();
        response.on("end", () => resolve(did(path, response.statusCode)));
      });
      request.on("error", reject);
    });
  }
  agent.destroy();
}

async function ask2() {
  const scheme = certificate ? "https" : "http";
  const session = library.connect(`${scheme}://127.0.0.1:${port}`, certificate ? { ca: fs.readFileSync(certificate) } : {});
  const ask = (path) =>
    new Promise((resolve, reject) => {
      const stream = session.request({ ":path": path });
      stream.on("response", (headers) => did(path, headers[":status"]));
      stream.on("error", reject);
      stream.on("end", resolve);
      stream.resume();
    });
  await ask("/index");
  if (mode === "multiplexed") await Promise.all(paths.map(ask));
  else for (const path of paths) await ask(path);
  session.close();
}

if (mode === "serve") serve();
else (kind === "http2" ? ask2 : ask1)();
