// The worker of the demo page: opens the file anew for each query, so that each shows what it costs by itself.

import init from "/modules/@sqlite.org/sqlite-wasm/dist/index.mjs";
import { litepack } from "/package/index.mjs";

const reader = init().then((sqlite3) => litepack(sqlite3));
const ROWS = 50;

onmessage = async ({ data: { url, sql } }) => {
  const lib = await reader;
  const begun = performance.now();
  let db;
  try {
    db = await lib.open(url);
    const columns = [];
    const rows = [];
    const statement = sql ? db.prepare(sql) : null;
    if (statement) {
      statement.getColumnNames(columns);
      while (rows.length < ROWS && statement.step()) rows.push(statement.get([]));
      statement.finalize();
    }
    postMessage({ columns, rows, traffic: db.traffic(), milliseconds: performance.now() - begun });
  } catch (error) {
    postMessage({ error: error.message, milliseconds: performance.now() - begun });
  } finally {
    db?.close();
  }
};
