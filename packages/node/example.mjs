// A packed database from the start, in better-sqlite3.
import { statSync } from "node:fs";
import Database from "better-sqlite3";
import { register } from "litepack";

register(Database, { newDatabases: "packed" });

const db = new Database("events.db");
db.exec("create table events(id integer primary key, data text)");
const insert = db.prepare("insert into events(data) values (?)");
db.transaction(() => {
  for (let i = 0; i < 20000; i++) insert.run(JSON.stringify({ user: i % 100, path: "/item/" + i, ok: i % 7 !== 0 }));
})();

const { n } = db.prepare("select count(*) as n from events where data ->> 'ok'").get();
const { bytes } = db.prepare("select page_count * page_size as bytes from pragma_page_count, pragma_page_size").get();
db.close();
console.log(`${n} events; ${bytes} bytes of database in a file of ${statSync("events.db").size}`);
