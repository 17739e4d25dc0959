// The thread that makes requests for `node.mjs`. Each answer has the number of its request, and 0 says that the thread
// is ready.

import { workerData } from "node:worker_threads";

import { byFetch, shown } from "./host.mjs";

const { port, signal } = workerData;

function answer(what) {
  port.postMessage(what);
  // Counted after the answer is there: who has seen the number looks for it.
  Atomics.add(signal, 0, 1);
  Atomics.notify(signal, 0);
}

port.on("message", async ({ number, url, start, end, timeout }) => {
  const found = await byFetch(url, start, end, timeout).catch((error) => ({ error: shown(error) }));
  answer({ ...found, number });
});
answer({ number: 0 });
