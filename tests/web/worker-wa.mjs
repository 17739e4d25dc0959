// The same with wa-sqlite.

import factory from "/modules/wa-sqlite/dist/wa-sqlite.mjs";
import * as SQLite from "/modules/wa-sqlite/src/sqlite-api.js";
import { litepack } from "/package/wa-sqlite.mjs";

const started = factory().then(async (module) => {
  const sqlite3 = SQLite.Factory(module);
  return { sqlite3, reader: await litepack(sqlite3) };
});

async function run({ url, key, sql }) {
  const { sqlite3, reader } = await started;
  const begun = performance.now();
  let db;
  try {
    db = await reader.open(url, { key });
    const answers = [];
    for (const one of sql) {
      const rows = [];
      await sqlite3.exec(db, one, (row) => rows.push(row));
      answers.push({ rows });
    }
    return { answers, traffic: reader.traffic(db), milliseconds: performance.now() - begun, memory: reader.memory };
  } catch (error) {
    return { error: reader.explained(db, error).message, memory: reader.memory };
  } finally {
    if (db) await reader.close(db);
  }
}

onmessage = async ({ data }) => postMessage({ id: data.id, ...(await run(data)) });
