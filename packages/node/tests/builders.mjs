// A query builder and an ORM on better-sqlite3, which open a packed file by its name.
//
// usage: node builders.mjs PACKED    adds lines to the file that $LITEPACK_HOSTS names (packages/README.md)
import assert from "node:assert/strict";
import { appendFileSync, copyFileSync, readFileSync } from "node:fs";
import Database from "better-sqlite3";
import { count, eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import knex from "knex";
import { register } from "litepack";

register(Database);
copyFileSync(process.argv[2], "builders.db");

const open = () => knex({ client: "better-sqlite3", connection: { filename: "builders.db" }, useNullAsDefault: true });
let db = open();
await db.schema.createTable("notes", (table) => table.increments("id").primary() && table.string("text"));
await db.transaction((transaction) => transaction("notes").insert({ text: "by Knex" }));
// The driver checks foreign keys unless it is told not to.
await db.raw("pragma foreign_keys = off");
await db("Track").where("TrackId", "<=", 3).delete();
await db.destroy();
db = open();
assert.deepEqual(await db("Track").count({ n: "*" }), [{ n: 3500 }]);
assert.equal((await db.raw("select litepack_check() as c, sqlite_version() as v"))[0].c, "ok");
await db.destroy();

const Artist = sqliteTable("Artist", { id: integer("ArtistId").primaryKey(), name: text("Name") });
for (const expected of [275, 276]) {
  const client = new Database("builders.db");
  const artists = drizzle(client);
  assert.deepEqual(artists.select({ n: count() }).from(Artist).all(), [{ n: expected }]);
  const { id } = artists.insert(Artist).values({ name: "Nobody yet" }).returning().get();
  artists.update(Artist).set({ name: "Somebody" }).where(eq(Artist.id, id)).run();
  client.close();
}
const client = new Database("builders.db");
assert.equal(client.prepare("select count(*) as n from Artist where Name = 'Somebody'").get().n, 2);
const sqlite = client.prepare("select sqlite_version() as v").get().v;
client.close();
assert.notEqual(readFileSync("builders.db").subarray(0, 15).toString(), "SQLite format 3");

for (const [host, folder] of Object.entries({ Knex: "knex", Drizzle: "drizzle-orm" })) {
  const { version } = JSON.parse(readFileSync(`node_modules/${folder}/package.json`));
  const line = { language: "Node", host, version, sqlite, how: "`register(Database)` of better-sqlite3", works: true, note: "" };
  appendFileSync(process.env.LITEPACK_HOSTS, JSON.stringify(line) + "\n");
}
console.log("ok Knex and Drizzle");
