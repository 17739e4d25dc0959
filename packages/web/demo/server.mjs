// A server for tests and the demo page: files by range, later by a delay, and with one thing wrong if the path says so.

import { createServer } from "node:http";
import { createHash } from "node:crypto";
import { closeSync, createReadStream, existsSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { pipeline } from "node:stream";
import { gzipSync } from "node:zlib";

const TYPES = {
  ".html": "text/html; charset=utf-8", ".mjs": "text/javascript", ".js": "text/javascript", ".css": "text/css",
  ".wasm": "application/wasm", ".json": "application/json",
};

/**
 * What is wrong with an answer for `/FAULT/...`; for `/later-FAULT/...` only from the second answer on. `sent` counts the
 * answers for this file.
 */
const FAULTS = {
  sound: {},
  missing: { status: 404 },
  forbidden: { status: 403 },
  whole: { whole: true },
  hidden: { expose: "" },
  unnamed: { etag: null },
  changing: { etag: (sent) => (sent > 1 ? '"another"' : '"one"') },
  compressing: { gzip: true },
  cut: { cut: true },
  once: { status: (sent) => (sent === 2 ? 503 : 0) },
  shifted: { shift: true },
  /** The answer says another range than was asked for, another length of the file, or has another length than it says. */
  another: { says: [1, 0] },
  longer: { says: [0, 1] },
  grown: { total: 1 },
  short: { body: (body) => body.subarray(0, body.length - 1) },
  long: { body: (body) => Buffer.concat([body, body]) },
  /** As several parts, without a Content-Range. */
  parts: { type: "multipart/byteranges; boundary=x", range: false },
  /** It does not end, comes a byte at a time, or not at all. */
  endless: { flow: "endless" },
  dripping: { flow: "dripping" },
  silent: { flow: "silent" },
  /** It leads to the file as it is, to that on the server `state.elsewhere`, or to itself. */
  moved: { to: (state, path) => path },
  away: { to: (state, path) => state.elsewhere + path },
  circle: { to: (state, path, self) => self },
};

/** Sends an answer that goes on until its reader goes. */
function flow(kind, response, headers, body, state) {
  if (kind === "silent") return;
  response.writeHead(206, headers);
  if (kind === "dripping") {
    const drop = setInterval(() => response.write(body.subarray(0, 1)), 100);
    response.on("close", () => clearInterval(drop));
    return;
  }
  const more = () => {
    // As fast as it is taken.
    while (!response.destroyed && response.write(body)) state.flowed += body.length;
  };
  response.on("drain", () => setImmediate(more));
  more();
}

/**
 * Serves folders by the first part of the path: `{ name: folder }`. `/FAULT/NAME/file` is the same with something wrong.
 * `other` is whether pages of other origins may ask. `flips` maps a path to offsets whose byte is another one.
 * `/control/NAME` answers what that function of `control` returns.
 */
export function serve(folders, { delay = 0, other = false, control = {} } = {}) {
  const state = { delay, taken: 0, flowed: 0, requests: [], flips: new Map(), sent: new Map() };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    let parts = normalize(decodeURIComponent(url.pathname)).split("/").filter((part) => part && part !== "..");
    if (parts[0] === "control" && control[parts[1]]) {
      response.writeHead(200, { "Content-Type": TYPES[".json"] }).end(JSON.stringify(control[parts[1]]()));
      return;
    }
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    const sent = (state.sent.get(url.pathname) ?? 0) + (range ? 1 : 0);
    let fault = {};
    const [, later, name] = /^(later-)?(.*)$/.exec(parts[0] ?? "");
    if (FAULTS[name]) {
      if (!later || sent > 1) fault = FAULTS[name];
      parts = parts.slice(1);
    }
    const folder = folders[parts[0]];
    const path = folder && join(folder, ...parts.slice(1));
    let asked;
    if (range || request.method === "HEAD") {
      const [start, end] = range ? [Number(range[1]), Number(range[2]) + 1] : [0, 0];
      state.sent.set(url.pathname, sent);
      // `sent` is how many bytes of the file.
      asked = { path: url.pathname, start, end, sent: 0, at: Date.now() };
      state.requests.push(asked);
      await new Promise((done) => setTimeout(done, state.delay));
    }
    const cors = other ? { "Access-Control-Allow-Origin": "*" } : {};
    const exposed = fault.expose ?? "Content-Range, ETag";
    if (other && exposed) cors["Access-Control-Expose-Headers"] = exposed;
    if (other && request.method === "OPTIONS") {
      response.writeHead(204, { ...cors, "Access-Control-Allow-Headers": "range" }).end();
      return;
    }
    if (fault.to) {
      const to = fault.to(state, `/${parts.join("/")}`, url.pathname);
      response.writeHead(302, { ...cors, Location: to }).end();
      return;
    }
    const status = typeof fault.status === "function" ? fault.status(sent) : fault.status;
    if (status || !path || !existsSync(path)) {
      response.writeHead(status || 404, { ...cors, "Content-Type": "text/plain" }).end("no");
      return;
    }
    const type = TYPES[extname(path)] ?? "application/octet-stream";
    if (request.method === "HEAD") {
      response.writeHead(200, { ...cors, "Content-Length": statSync(path).size, "Accept-Ranges": "bytes" }).end();
      return;
    }
    if (!range || fault.whole) {
      const body = createReadStream(path);
      response.writeHead(200, { ...cors, "Content-Type": type, "Content-Length": statSync(path).size });
      // How much is taken of a file that was asked for in parts.
      body.on("close", () => (state.taken = range ? body.bytesRead : state.taken));
      pipeline(body, response, () => {});
      return;
    }
    const file = openSync(path, "r");
    try {
      const { size, mtimeMs } = fstatSync(file);
      const start = Number(range[1]);
      const end = Math.min(size, Number(range[2]) + 1);
      if (start >= size) {
        response.writeHead(416, { ...cors, "Content-Range": `bytes */${size}` }).end();
        return;
      }
      let body = Buffer.alloc(end - start);
      asked.sent = body.length;
      readSync(file, body, 0, body.length, start + (fault.shift && start > 0 ? 1 : 0));
      for (const at of state.flips.get(url.pathname) ?? []) if (at >= start && at < end) body[at - start] ^= 1;
      const flips = (state.flips.get(url.pathname) ?? []).join();
      const name = createHash("sha256").update(`${path} ${size} ${mtimeMs} ${flips}`).digest("hex").slice(0, 16);
      const etag = fault.etag === undefined ? `"${name}"` : typeof fault.etag === "function" ? fault.etag(sent) : fault.etag;
      const [first, last] = [0, 1].map((n) => [start, end - 1][n] + (fault.says?.[n] ?? 0));
      const answer = { ...cors, "Content-Type": fault.type ?? type, "Cache-Control": "no-store" };
      if (fault.range !== false) answer["Content-Range"] = `bytes ${first}-${last}/${size + (fault.total ?? 0)}`;
      if (etag) answer.ETag = etag;
      if (fault.gzip) {
        body = gzipSync(body);
        answer["Content-Encoding"] = "gzip";
      }
      if (fault.flow) {
        flow(fault.flow, response, answer, body, state);
        return;
      }
      body = fault.body?.(body) ?? body;
      // What has another length than it says is sent without that header, so that the browser does not see it either.
      if (!fault.body) answer["Content-Length"] = body.length;
      response.writeHead(206, answer);
      if (fault.cut && sent > 1) {
        response.write(body.subarray(0, body.length >> 1));
        setTimeout(() => response.destroy(), 50);
      } else {
        response.end(body);
      }
    } finally {
      closeSync(file);
    }
  });
  return new Promise((done) => {
    server.listen(0, "127.0.0.1", () => {
      state.url = `http://127.0.0.1:${server.address().port}`;
      state.close = () => {
        server.closeAllConnections();
        server.close();
      };
      done(state);
    });
  });
}
