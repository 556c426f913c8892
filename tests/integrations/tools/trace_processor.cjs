// Perfetto's own trace processor, as its UI uses it (compiled to WebAssembly), behind a Unix socket.
//
// usage: node trace_processor.cjs ENGINE_BUNDLE SOCKET
//
// The bundle is the worker of the UI. It expects a browser's worker: a place of its own, requests
// that read files, and a port that requests come from. Bytes of the socket are passed on as they are.
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const vm = require("node:vm");

const [bundle, socket] = process.argv.slice(2);
const folder = path.dirname(bundle);

// What is made inside must be of the types that exist inside.
function bytesInside(bytes) {
  return new (vm.runInContext("Uint8Array", worker))(bytes);
}

class FileRequest {
  open(_method, address) {
    this.address = address;
  }
  send() {
    const file = path.join(folder, path.basename(this.address));
    this.response = bytesInside(fs.readFileSync(file)).buffer;
    this.status = 200;
  }
}

const location = { href: `file://${bundle}` };
const port = {};
const self = { location };
const quiet = { log() {}, warn() {}, error: console.error };
const worker = vm.createContext({
  self,
  location,
  console: quiet,
  performance,
  setTimeout,
  TextDecoder,
  TextEncoder,
  URL,
  WorkerGlobalScope: class {},
  XMLHttpRequest: FileRequest,
});

function serve(connection) {
  port.postMessage = (bytes) => connection.write(Buffer.from(bytes));
  connection.on("data", (bytes) => port.onmessage({ data: bytesInside(bytes) }));
  connection.on("end", () => process.exit(0));
}

process.on("uncaughtException", (error) => {
  // Node would print the line that failed, and the bundle is one line.
  console.error(String(error.message ?? error).slice(0, 2000));
  process.exit(1);
});
vm.runInContext(fs.readFileSync(bundle, "utf8"), worker, { filename: "engine_bundle.js" });
// The module is ready after the promises that it has made.
setTimeout(() => {
  self.onmessage({ data: port });
  net.createServer(serve).listen(socket, () => console.log("ready"));
}, 0);
