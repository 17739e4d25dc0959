// What the tests have a worker do: opens a database, runs SQL, and says what came and what it took.

import init from "/modules/@sqlite.org/sqlite-wasm/dist/index.mjs";
import { litepack } from "/package/index.mjs";

const started = init().then((sqlite3) => litepack(sqlite3));

async function run({ url, key, sql }) {
  const reader = await started;
  const begun = performance.now();
  let db;
  try {
    db = await reader.open(url, { key });
    const answers = [];
    for (const one of sql) {
      const before = performance.now();
      const rows = db.exec({ sql: one, rowMode: "array", returnValue: "resultRows" });
      const traffic = db.traffic();
      answers.push({ rows, milliseconds: performance.now() - before, requests: traffic.requests, bytes: traffic.bytes });
    }
    return { answers, traffic: db.traffic(), milliseconds: performance.now() - begun, memory: reader.memory };
  } catch (error) {
    return { error: error.message, code: error.resultCode ?? error.code, memory: reader.memory };
  } finally {
    db?.close();
  }
}

onmessage = async ({ data }) => postMessage({ id: data.id, ...(await run(data)) });
