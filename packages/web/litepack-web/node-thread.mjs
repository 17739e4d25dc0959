// The thread that makes requests for `node.mjs`.

import { workerData } from "node:worker_threads";

import { byFetch } from "./host.mjs";

const { port, signal } = workerData;
port.on("message", async ({ url, start, end, timeout }) => {
  const answer = await byFetch(url, start, end, timeout).catch((error) => ({
    error: error.cause?.message ?? error.message,
  }));
  port.postMessage(answer);
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
});
