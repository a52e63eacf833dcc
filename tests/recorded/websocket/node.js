// ws of Node, for scenarios.py: node.js server PORT | client PORT
const { WebSocket, WebSocketServer } = require(`${process.env.NODE_MODULES}/ws`);

const [what, port] = process.argv.slice(2);
if (what === "server") {
  const server = new WebSocketServer({ port: Number(port), host: "127.0.0.1", perMessageDeflate: true });
  server.on("connection", (socket) => {
    socket.on("error", () => {});
    let timer = setInterval(() => socket.send("tick"), 5);
    socket.on("message", (message, isBinary) => socket.send(message, { binary: isBinary }));
    socket.on("close", () => clearInterval(timer));
  });
} else {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/rooms/42?token=hunter2`);
  socket.on("open", () => {
    socket.send("geheim ".repeat(400));
    socket.send(Buffer.alloc(300, "x"));
    setTimeout(() => socket.close(4000, "geheim"), 22);
  });
}
