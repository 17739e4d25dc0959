// wa-sqlite in Node, where a function makes the requests: what needs temporary files, and which error is explained.
//
// usage: node-wa.mjs WORK LITEPACK

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { make } from "./data.mjs";
import { expect, failure, inNode, same } from "./harness.mjs";

const [work, command] = process.argv.slice(2);
const data = join(work, "data");
make(data, command);
const modules = join(work, "node_modules");
const imported = (path) => import(pathToFileURL(join(modules, path)));
const { default: factory } = await imported("wa-sqlite/dist/wa-sqlite.mjs");
const SQLite = await imported("wa-sqlite/src/sqlite-api.js");
const { litepack } = await imported("litepack-web/wa-sqlite.mjs");
const { test, end } = inNode();

const sqlite3 = SQLite.Factory(await factory({ wasmBinary: readFileSync(join(modules, "wa-sqlite/dist/wa-sqlite.wasm")) }));
const wasm = readFileSync(join(modules, "litepack-web/litepack.wasm"));
let isBroken = false;
function request(url, start, end) {
  if (isBroken) throw Object.assign(new Error(), { code: "ETEST" });
  const file = readFileSync(new URL(url));
  const body = file.subarray(start, end);
  return { status: 206, headers: `Content-Range: bytes ${start}-${start + body.length - 1}/${file.length}\nETag: "x"`, body };
}
const without = await failure(litepack(sqlite3, { wasm }));
const reader = await litepack(sqlite3, { wasm, request });

async function query(db, sql) {
  const rows = [];
  await sqlite3.exec(db, sql, (row) => rows.push(row));
  return rows;
}

await test("wa-sqlite without a function for requests is an error that says so", async () => {
  expect(without.message.includes("give it `request`") && without.message.includes("litepack-web/wa-sqlite"), without.message);
});

await test("wa-sqlite sorts, and has temporary tables", async () => {
  const db = await reader.open(pathToFileURL(join(data, "titles.packed")));
  same((await query(db, "select about from title order by about, id desc")).length, 200_000);
  same((await query(db, "select count(*) from (select distinct about || id from title)"))[0][0], 200_000);
  same(await query(db, "with m as materialized (select about || id as x from title) select count(*) from m a where x > ''"), [[200_000]]);
  await query(db, "create temp table tt as select * from title; create index temp.by_about on tt (about)");
  same(await query(db, "select count(*) from tt"), [[200_000]]);
  await reader.close(db);
});

await test("wa-sqlite's errors are explained by what went wrong in them, and not before", async () => {
  const db = await reader.open(pathToFileURL(join(data, "titles.zst")));
  const sql = "select sum(length(about)) from title";
  isBroken = true;
  const first = reader.explained(db, await failure(query(db, sql)));
  expect(first.message.includes("ETEST"), first.message);
  const second = reader.explained(db, await failure(query(db, "selec nonsense")));
  expect(second.message.includes("syntax error"), second.message);
  isBroken = false;
  await query(db, sql);
  const third = reader.explained(db, Object.assign(new Error("disk I/O error"), { code: 10 }));
  same(third.message, "disk I/O error");
  await reader.close(db);
});

end();
