// The reader in Node, without native code. Node has no requests that block, so a thread makes them, and this one waits.
// Files of this machine are read by `file:` URLs.

import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { MessageChannel, Worker, receiveMessageOnPort } from "node:worker_threads";

import { litepack as read } from "./index.mjs";

/** Makes the reader for a SQLite that was initialised by `@sqlite.org/sqlite-wasm`, once in a process. */
export async function litepack(sqlite3, options = {}) {
  const wasm = options.wasm ?? readFileSync(new URL("litepack.wasm", import.meta.url));
  return read(sqlite3, { ...options, wasm, request: options.request ?? blockingRequests() });
}

/** A part of a file of this machine, as a server would answer. */
function ofFile(url, start, end) {
  const file = openSync(new URL(url), "r");
  try {
    const { size, mtimeNs, ino } = fstatSync(file, { bigint: true });
    if (start >= size) return { status: 416, headers: "", body: new ArrayBuffer(0) };
    const body = new Uint8Array(Math.min(end, Number(size)) - start);
    const length = readSync(file, body, 0, body.length, start);
    const headers = `Content-Range: bytes ${start}-${start + length - 1}/${size}\nETag: "${ino}-${mtimeNs}-${size}"`;
    return { status: 206, headers, body: body.buffer.slice(0, length) };
  } finally {
    closeSync(file);
  }
}

/** A function that asks for a range and waits for the answer. */
function blockingRequests() {
  const { port1: here, port2: there } = new MessageChannel();
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const thread = new Worker(new URL("node-thread.mjs", import.meta.url), {
    workerData: { port: there, signal },
    transferList: [there],
  });
  // Neither keeps the process.
  thread.unref();
  here.unref();
  return (url, start, end, timeout) => {
    if (url.startsWith("file:")) return ofFile(url, start, end);
    Atomics.store(signal, 0, 0);
    here.postMessage({ url, start, end, timeout });
    // The thread itself keeps the time; it is waited for no longer than if it had ended.
    Atomics.wait(signal, 0, 0, timeout + 5000);
    const answer = receiveMessageOnPort(here)?.message;
    if (!answer) throw new Error("the thread for requests does not answer");
    if (answer.error) throw new Error(answer.error);
    return answer;
  };
}
