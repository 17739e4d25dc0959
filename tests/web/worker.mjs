// What the tests have a worker do: opens databases, runs SQL, and says what came and what it took.

import init from "/modules/@sqlite.org/sqlite-wasm/dist/index.mjs";
import { litepack } from "/package/index.mjs";

const timeout = new URLSearchParams(location.search).get("timeout");
const started = init().then(async (sqlite3) => ({
  sqlite3,
  reader: await litepack(sqlite3, timeout ? { timeout: Number(timeout) } : {}),
}));
/** Databases that stay open from one request to the next. */
const kept = new Map();

async function run({ url, key, sql, keep = "", close }) {
  const { sqlite3, reader } = await started;
  const memory = () => ({ memory: reader.memory, ofSqlite: sqlite3.wasm.heap8u().length });
  const begun = performance.now();
  let db;
  try {
    db = kept.get(keep) ?? (await reader.open(url, { key }));
    if (keep) kept.set(keep, db);
    const answers = [];
    for (const one of sql) {
      const before = performance.now();
      const rows = db.exec({ sql: one, rowMode: "array", returnValue: "resultRows" });
      const traffic = db.traffic();
      answers.push({ rows, milliseconds: performance.now() - before, requests: traffic.requests, bytes: traffic.bytes });
    }
    return { answers, traffic: db.traffic(), milliseconds: performance.now() - begun, ...memory() };
  } catch (error) {
    return { error: error.message, code: error.resultCode ?? error.code, ...memory() };
  } finally {
    if (!keep || close) db?.close();
    if (close) kept.delete(keep);
  }
}

onmessage = async ({ data }) => postMessage({ id: data.id, ...(await run(data)) });
