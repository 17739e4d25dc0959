// litepack-web as npm installed it, in Node: the packed database beside the plain one.
//
// usage: node installed.mjs VERSION

import assert from "node:assert/strict";
import { appendFileSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { brotliCompressSync } from "node:zlib";
import init from "@sqlite.org/sqlite-wasm";
import { litepack } from "litepack-web";

const manifest = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`));
assert.equal(manifest("litepack-web").version, process.argv[2]);
assert(readFileSync("node_modules/litepack-web/THIRD-PARTY", "utf8").includes("zstd"));

const module = readFileSync("node_modules/litepack-web/litepack.wasm");
const size = brotliCompressSync(module).length;
assert(size <= 500_000, `the module has ${size} bytes under brotli`);
for (const path of [process.env.HOME, "/.cargo/", "/registry/src/"]) assert(!module.includes(path), `${path} is in the module`);

const sqlite3 = await init();
const reader = await litepack(sqlite3);
const SQL = "select count(*), sum(Milliseconds), max(Title) from Track join Album using (AlbumId)";
const found = {};
for (const kind of ["plain", "packed"]) {
  const db = await reader.open(pathToFileURL(`${kind}.db`));
  assert.equal(db.traffic().kind, kind);
  found[kind] = db.exec({ sql: SQL, rowMode: "array", returnValue: "resultRows" });
  assert.throws(() => db.exec("delete from Track"), /readonly/);
  db.close();
}
assert.equal(found.packed[0][0], 3503);
assert.deepEqual(found.packed, found.plain);
await assert.rejects(reader.open(pathToFileURL("none.db")), /none\.db/);

const host = "@sqlite.org/sqlite-wasm";
const row = {
  language: "WebAssembly", host, version: manifest(host).version, sqlite: sqlite3.capi.sqlite3_libversion(),
  how: "`litepack(sqlite3)` of litepack-web", works: true, note: "only reads; in Node and [browsers](browser.md)",
};
appendFileSync(process.env.LITEPACK_HOSTS, `${JSON.stringify(row)}\n`);
console.log(`ok ${host}`);
