// The server for the tests in Node, in a thread of its own: the thread of the tests waits for its answers.

import { parentPort, workerData } from "node:worker_threads";
import { serve } from "../../packages/web/demo/server.mjs";

const server = await serve(workerData, {
  control: {
    taken: () => server.taken,
    requests: () => server.requests.length,
    slow: () => (server.delay = 400),
    fast: () => (server.delay = 0),
  },
});
parentPort.postMessage(server.url);
