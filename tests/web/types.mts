import sqlite3InitModule from "@sqlite.org/sqlite-wasm";
import { litepack, type Traffic } from "litepack-web";

const reader = await litepack(await sqlite3InitModule(), { wasm: new URL("https://x.example/litepack.wasm") });
const db = await reader.open("https://data.example/app.packed", { key: "secret" });
const traffic: Traffic = db.traffic();
const rows = db.exec({ sql: "select 1", rowMode: "array", returnValue: "resultRows" });
console.log(traffic.requests, rows, reader.memory);
// @ts-expect-error: a database is opened by its URL
reader.open(7);

import { litepack as forWaSqlite } from "litepack-web/wa-sqlite";
import * as SQLite from "wa-sqlite";

const wa = await forWaSqlite(SQLite.Factory(null), { timeout: 1000 });
console.log(wa.traffic(await wa.open("https://data.example/app.packed")).bytes);
