// Two drivers, and so two SQLite libraries, in one process; and worker threads.
//
// usage: node together.mjs PACKED
import assert from "node:assert/strict";
import { copyFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { isMainThread, Worker, workerData } from "node:worker_threads";
import BetterSqlite3 from "better-sqlite3";
import Libsql from "libsql";
import { register } from "litepack";

const CLASSES = [BetterSqlite3, DatabaseSync, Libsql];
const count = (db) => db.prepare("select count(*) as n from Track").get().n;

if (isMainThread) {
  for (const Database of CLASSES) register(Database);
  for (const Database of CLASSES) {
    const file = `${Database.name}-${CLASSES.indexOf(Database)}.db`;
    copyFileSync(process.argv[2], file);
    const db = new Database(file);
    assert.equal(count(db), 3503);
    db.exec("pragma foreign_keys = off; delete from Track where TrackId % 2");
    db.close();
  }
  // A worker has not registered anything itself.
  const ended = await new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: "BetterSqlite3" });
    worker.on("error", reject).on("exit", resolve);
  });
  assert.equal(ended, 0);
  const db = new BetterSqlite3("Database-0.db");
  assert.equal(db.prepare("select count(*) as n from w").get().n, 1000);
  console.log("ok three drivers in one process, and a worker thread");
} else {
  assert.equal(workerData, "BetterSqlite3");
  const db = new BetterSqlite3("Database-0.db");
  assert.equal(count(db), 1751);
  db.exec("create table w(x); insert into w select TrackId from Track limit 1000");
  assert.equal(db.prepare("select litepack_check() as c").get().c, "ok");
  db.close();
}
