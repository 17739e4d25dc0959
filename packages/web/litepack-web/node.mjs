// The reader in Node, without native code. Node has no requests that block, so a thread makes them, and this one waits.
// Files of this machine are read by `file:` URLs.

import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, realpathSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { MessageChannel, Worker, receiveMessageOnPort } from "node:worker_threads";

import { Reason, shown } from "./host.mjs";
import { litepack as read } from "./index.mjs";

/** How long the thread may take to start, and to say that a request has failed in time, in milliseconds. */
const STARTING = 10_000, TELLING = 5_000;

/** Makes the reader for a SQLite that was initialised by `@sqlite.org/sqlite-wasm`, once in a process. */
export async function litepack(sqlite3, options = {}) {
  let wasm = options.wasm ?? new URL("litepack.wasm", import.meta.url);
  // fetch() takes no such URLs.
  if (isFile(wasm)) wasm = readFileSync(new URL(wasm));
  if (options.request) return read(sqlite3, { ...options, wasm });
  return read(sqlite3, { ...options, wasm, request: blocking, look: refuseUnfinished });
}

const isFile = (url) => (url instanceof URL || typeof url === "string") && String(url).startsWith("file:");

/** Asks for a range, and waits for the answer. */
function blocking(url, start, end, timeout) {
  return isFile(url) ? ofFile(url, start, end) : ofServer(url, start, end, timeout);
}

/** Does something with a file. If that fails, it is not tried again. */
function withFile(url, action) {
  let path;
  try {
    path = fileURLToPath(url);
    return action(path);
  } catch (error) {
    if (error instanceof Reason) throw error;
    const known = {
      ENOENT: "there is no such file",
      EACCES: "this process may not read the file",
      EPERM: "this process may not read the file",
    };
    throw Reason.final(`${path ?? "file:"}: ${known[error.code] ?? `the file cannot be read (${shown(error)})`}`);
  }
}

/** A part of a file of this machine, as a server would answer. */
function ofFile(url, start, end) {
  return withFile(url, (path) => {
    // Opening does not wait, not even for a pipe's other end.
    const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    try {
      const before = fstatSync(file, { bigint: true });
      if (!before.isFile()) throw Reason.final(`${path}: this is no file`);
      const size = Number(before.size);
      if (start >= size) return { status: 416, headers: "", body: new ArrayBuffer(0) };
      const body = new Uint8Array(Math.min(end, size) - start);
      const length = readSync(file, body, 0, body.length, start);
      const version = ({ ino, mtimeNs, size }) => `"${ino}-${mtimeNs}-${size}"`;
      // What was read in between may be of either version.
      if (version(fstatSync(file, { bigint: true })) !== version(before)) {
        throw new Reason("the file has changed while it was read");
      }
      const headers = `Content-Range: bytes ${start}-${start + length - 1}/${size}\nETag: ${version(before)}`;
      return { status: 206, headers, body: body.buffer.slice(0, length) };
    } finally {
      closeSync(file);
    }
  });
}

function firstByte(path) {
  const file = openSync(path, "r");
  try {
    const byte = new Uint8Array(1);
    readSync(file, byte);
    return byte[0];
  } finally {
    closeSync(file);
  }
}

/** Refuses a database that is not whole in its file: some of it is still in a WAL, or in a journal. */
function refuseUnfinished(url) {
  if (!isFile(url)) return;
  withFile(url, (path) => {
    for (const [suffix, isJournal] of [["-wal"], ["-lpw"], ["-journal", true], ["-lpjourn", true]]) {
      // Where links lead, as SQLite does.
      const beside = realpathSync(path) + suffix;
      const size = statSync(beside, { throwIfNoEntry: false })?.size ?? 0;
      // A journal that SQLite keeps for the next time begins with zeros.
      if (size === 0 || (isJournal && firstByte(beside) === 0)) continue;
      throw Reason.final(
        `${path}: what was written last is not in it but in ${beside}, which is not read here: end the programs that ` +
          "have it open, or open and close it by SQLite or Litepack, until that file is gone; or make a copy by VACUUM INTO",
      );
    }
  });
}

/** The thread that makes requests, from the first one on. */
let thread = null;

function startThread() {
  const { port1: port, port2: there } = new MessageChannel();
  const signal = new Int32Array(new SharedArrayBuffer(4));
  // Not by its file: where a program is given as text, threads are not started of files (`--input-type`).
  const program = `import(${JSON.stringify(new URL("node-thread.mjs", import.meta.url).href)})`;
  const worker = new Worker(program, { eval: true, workerData: { port: there, signal }, transferList: [there] });
  const made = { port, signal, worker, isReady: false, requests: 0 };
  // Without a listener its failure would end the process. The next request starts another one.
  for (const event of ["error", "exit"]) worker.on(event, () => (thread = thread === made ? null : thread));
  // Neither keeps the process.
  worker.unref();
  port.unref();
  return made;
}

/** Waits for the answer with this number. Those with others came too late, and are nobody's. */
function answerOf({ port, signal }, number, milliseconds) {
  const deadline = performance.now() + milliseconds;
  for (;;) {
    const seen = Atomics.load(signal, 0);
    // Looked for at least once after the time is over: this process may have been stopped.
    const left = deadline - performance.now();
    for (let found; (found = receiveMessageOnPort(port)); ) if (found.message.number === number) return found.message;
    if (left <= 0) return null;
    Atomics.wait(signal, 0, seen, left);
  }
}

function ofServer(url, start, end, timeout) {
  thread ??= startThread();
  if (!thread.isReady && !answerOf(thread, 0, STARTING)) throw Reason.final("the thread for requests does not start");
  thread.isReady = true;
  const number = (thread.requests += 1);
  thread.port.postMessage({ number, url, start, end, timeout });
  // The thread itself keeps the time; it is waited for no longer than if it had ended.
  const answer = answerOf(thread, number, timeout + TELLING);
  if (!answer) throw new Reason("the thread for requests does not answer");
  if (answer.error) throw new Reason(answer.error);
  return answer;
}
