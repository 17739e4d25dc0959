// One driver and a packed file: refused without Litepack, then read, written, reopened. Runs in Node and in Bun.
//
// usage: node hosts.mjs DRIVER PLAIN PACKED    PLAIN and PACKED are the same database; a copy of PACKED is worked on
// Adds a line to the file that $LITEPACK_HOSTS names (packages/README.md) and prints "ok DRIVER".
import assert from "node:assert/strict";
import { appendFileSync, copyFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { inspect } from "node:util";
import { giveKey, load, register } from "litepack";

const require = createRequire(import.meta.url);
const [driver, plain, packed] = process.argv.slice(2);
const NOT_A_DATABASE = /file is not a database/;

/** The version of a package. */
const version = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;

/** Rows, with no statement left: in Bun one that is left keeps the database open when it is closed. */
function all(db, sql) {
  const statement = db.prepare(sql);
  try {
    return statement.all();
  } finally {
    statement.finalize?.();
  }
}

/** Drivers whose calls return what they have: `open`, and statements by prepare(). */
function direct(Database, options = {}) {
  return {
    Database,
    async open(file) {
      const db = new Database(file, ...(options.arguments ?? []));
      return {
        all: async (sql) => all(db, sql),
        run: async (sql) => void db.exec(sql),
        close: async () => void db.close(),
      };
    },
    ...options,
  };
}

// libsql keeps a database open for a while after close(), plain or packed, so that WAL mode cannot be left.
const LIBSQL_MODES = ["wal", "wal"];

const DRIVERS = {
  async "better-sqlite3"() {
    const { default: Database } = await import("better-sqlite3");
    return direct(Database, { version: version("better-sqlite3"), note: "has no URIs" });
  },
  async "node:sqlite"() {
    const { DatabaseSync } = await import("node:sqlite");
    return direct(DatabaseSync, {
      version: `Node ${process.versions.node}`,
      uri: (file) => new DatabaseSync(file),
      loader: () => new DatabaseSync(":memory:", { allowExtension: true }),
    });
  },
  async libsql() {
    const { default: Database } = await import("libsql");
    return direct(Database, { version: version("libsql"), modes: LIBSQL_MODES, uri: (file) => new Database(file) });
  },
  async "@libsql/client"() {
    const { createClient } = await import("@libsql/client");
    const { default: Database } = await import("libsql");
    return {
      Database,
      version: version("@libsql/client"),
      modes: LIBSQL_MODES,
      how: "`register(Database)`, with `Database` of libsql",
      async open(file) {
        const client = createClient({ url: `file:${file}` });
        return {
          all: async (sql) => (await client.execute(sql)).rows,
          run: (sql) => client.executeMultiple(sql),
          close: async () => client.close(),
        };
      },
    };
  },
  async sqlite3() {
    const { Database, OPEN_READWRITE, OPEN_URI } = require("sqlite3");
    const open = (...arguments_) =>
      new Promise((resolve, reject) => {
        const db = new Database(...arguments_, (error) => (error ? reject(error) : resolve(db)));
      });
    const call = (db, method, ...rest) =>
      new Promise((resolve, reject) => db[method](...rest, (error, rows) => (error ? reject(error) : resolve(rows))));
    const promised = (db) => ({
      all: (sql) => call(db, "all", sql),
      run: (sql) => call(db, "exec", sql),
      close: () => call(db, "close"),
    });
    return {
      Database,
      host: "node-sqlite3",
      version: version("sqlite3"),
      how: "`await register(sqlite3.Database)`",
      open: async (file) => promised(await open(file)),
      openUri: async (file) => promised(await open(file, OPEN_READWRITE | OPEN_URI)),
      note: "URIs with `OPEN_URI`",
    };
  },
  async "bun:sqlite"() {
    const { Database, constants } = await import("bun:sqlite");
    return direct(Database, {
      version: `Bun ${process.versions.bun}`,
      uri: (file) => new Database(file, constants.SQLITE_OPEN_READWRITE | constants.SQLITE_OPEN_URI),
      note: "URIs with `SQLITE_OPEN_URI`",
    });
  },
};

const host = await DRIVERS[driver]();
const openUri =
  host.openUri ??
  (host.uri &&
    (async (file) => {
      const db = host.uri(file);
      return { all: async (sql) => all(db, sql), close: async () => void db.close() };
    }));

async function one(db, sql) {
  const [row] = await db.all(sql);
  return Object.entries(row).filter(([name]) => name !== "_metadata")[0][1];
}

async function withDatabase(file, work, open = host.open) {
  const db = await open(file);
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

const isPlain = (file) => readFileSync(file).subarray(0, 15).toString() === "SQLite format 3";
const count = (db) => one(db, "select count(*) from Track");

copyFileSync(packed, "work.db");
copyFileSync(plain, "work-plain.db");

// Without Litepack.
await assert.rejects(() => withDatabase("work.db", count), NOT_A_DATABASE);

// By URI, where the driver has them, with the first entry point: the default stays as it is.
if (host.loader) {
  const db = host.loader();
  load(db);
  db.close();
  await assert.rejects(() => withDatabase("work.db", count), NOT_A_DATABASE);
  assert.equal(await withDatabase("file:work.db?vfs=litepack", count, openUri), 3503);
}

// By name.
const done = register(host.Database);
assert.equal(done instanceof Promise, driver === "sqlite3");
await done;
const sqlite = await withDatabase("work.db", async (db) => {
  assert.equal(await count(db), 3503);
  // Some drivers check foreign keys unless they are told not to.
  const begin = "pragma foreign_keys = off; begin";
  await db.run(`${begin}; delete from Track where TrackId <= 3; insert into Artist(Name) values ('Nobody yet'); commit`);
  await db.run(`${begin}; delete from Artist; rollback`);
  await db.run("create table notes(id integer primary key, text); insert into notes(text) values ('first')");
  return one(db, "select sqlite_version()");
});
for (const mode of host.modes ?? ["wal", "delete"]) {
  await withDatabase("work.db", async (db) => {
    assert.equal(await one(db, `pragma journal_mode = ${mode}`), mode);
    assert.equal(await count(db), 3500);
    assert.equal(await one(db, "select count(*) from Artist"), 276);
    await db.run("update notes set text = text || '+'");
    assert.equal(await one(db, "pragma integrity_check"), "ok");
    assert.equal(await one(db, "select litepack_check()"), "ok");
  });
}
assert.equal(await withDatabase("work.db", (db) => one(db, "select text from notes")), "first++");
assert(!isPlain("work.db"));
if (openUri) {
  assert.equal(await withDatabase("file:work.db?vfs=litepack", count, openUri), 3500);
}

// Plain databases stay plain; new ones are what was said.
await withDatabase("work-plain.db", (db) => db.run("create table notes(text)"));
await withDatabase("new.db", (db) => db.run("create table t(x)"));
assert(isPlain("work-plain.db") && isPlain("new.db"));
await register(host.Database, { newDatabases: "packed" });
await withDatabase("new-packed.db", (db) => db.run("create table t(x)"));
assert(!isPlain("new-packed.db"));

// Without Litepack nothing takes a key, also where the driver's SQLite has keys of its own, as libsql's has.
if (driver.includes("libsql")) {
  const db = new host.Database("work-plain.db");
  assert.throws(() => giveKey(db, "s3cret"), /not encrypted by Litepack/);
  db.close();
}

// One that would prepare nothing until it is run has given no key.
const lazy = { prepare: (sql) => ({ get: () => (sql === "pragma litepack_version" ? {} : undefined) }) };
assert.throws(() => giveKey(lazy, "s3cret"), /not encrypted by Litepack/);

// An encrypted one.
if (driver !== "@libsql/client") {
  // What the driver shows of statements, to those who asked for it, has no key.
  const shown = [];
  if (driver === "sqlite3") require("sqlite3").verbose();
  const connect = (file) =>
    driver === "sqlite3"
      ? new Promise((resolve, reject) => {
          const db = new host.Database(file, (error) => (error ? reject(error) : resolve(db)));
        })
      : new host.Database(file, ...(driver === "better-sqlite3" ? [{ verbose: (sql) => shown.push(sql) }] : []));
  const close = (db) => new Promise((resolve) => (driver === "sqlite3" ? db.close(resolve) : resolve(db.close())));
  for (const key of ["correct 'horse'", new Uint8Array(32).fill(7)]) {
    const file = `new-key-${key.length}.db`;
    for (const sql of ["create table canary(x)", "insert into canary values (1)"]) {
      const db = await connect(file);
      if (driver === "sqlite3") for (const what of ["trace", "profile"]) db.on(what, (sql) => shown.push(sql));
      await giveKey(db, key);
      await new Promise((resolve, reject) =>
        driver === "sqlite3" ? db.exec(sql, (error) => (error ? reject(error) : resolve())) : resolve(db.exec(sql)),
      );
      await close(db);
    }
    assert(readFileSync(file).subarray(0, 8).equals(Buffer.from("Litepack")));
    assert(!readFileSync(file).includes("canary"));
    for (const [name, words] of [
      [file, /wrong key/],
      ["new.db", /not encrypted/],
      ["work.db", /not encrypted/],
      [":memory:", /not encrypted/],
    ]) {
      const db = await connect(name);
      await assert.rejects(async () => giveKey(db, "s3cret"), (error) => {
        assert.match(error.message, words);
        assert(!inspect(error, { depth: 9, showHidden: true }).includes("s3cret"));
        assert(!error.stack.includes("s3cret"));
        return true;
      });
      await close(db);
    }
  }
  if (["better-sqlite3", "sqlite3"].includes(driver)) assert.match(shown.join(), /create table canary/);
  assert(!/horse|0707|s3cret/.test(shown.join()));
  for (const wrong of ["", "a\0b", new Uint8Array(31), 7, undefined]) {
    await assert.rejects(async () => giveKey(await connect(":memory:"), wrong), TypeError);
  }
}

// Other SQL than the program's own says nothing for the process.
await withDatabase("new.db", (db) =>
  assert.rejects(async () => one(db, "select litepack_new_databases('plain')"), /not authorized|SQLITE_AUTH/),
);
await register(host.Database);
await withDatabase("new-still-packed.db", (db) => db.run("create table t(x)"));
assert(!isPlain("new-still-packed.db"));

const small = async () => register(host.Database, { newDatabases: "small" });
await assert.rejects(small, /"packed" or "plain", not "small"/);
assert.throws(() => register(class {}), /register\(\) takes a driver's class/);
assert.throws(() => load({}), /load\(\) takes a connection/);

const { version: hostVersion, how = `\`register(${host.Database.name})\``, note = "" } = host;
const line = { language: process.versions.bun ? "Bun" : "Node", host: host.host ?? driver, version: hostVersion, sqlite };
appendFileSync(process.env.LITEPACK_HOSTS, JSON.stringify({ ...line, how, works: true, note }) + "\n");
console.log(`ok ${driver}`);
process.exit();
