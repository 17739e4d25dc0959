// Finds the extension in the package for this platform, and loads it into a driver's SQLite.
//
// Nothing is done when this is required, so that a program that only wants a path gets only that.
"use strict";

const path = require("node:path");

const PLATFORM = `${process.platform}-${process.arch}`;

/** The folder with the binaries, which is another package: npm installs the one that fits. */
function folder() {
  try {
    return path.dirname(require.resolve(`litepack-${PLATFORM}/package.json`));
  } catch (cause) {
    const message =
      `litepack: the package litepack-${PLATFORM} with the binaries is not installed. Either there is none for this ` +
      "system (it needs glibc on Linux), or npm left it out: install without --omit=optional, on the system on which " +
      "the program runs";
    throw Object.assign(new Error(message, { cause }), { code: "ERR_LITEPACK_PLATFORM" });
  }
}

function getLoadablePath() {
  return path.join(folder(), "liblitepack.so");
}

function getDefaultLoadablePath() {
  return path.join(folder(), "litepackdefault.so");
}

function getCommandPath() {
  return path.join(folder(), "litepack");
}

/** What to run after loading, if anything. */
function statement(options) {
  const wanted = options?.newDatabases;
  if (wanted === undefined) return null;
  if (wanted === "packed" || wanted === "plain") return `select litepack_new_databases('${wanted}')`;
  throw new TypeError(`litepack: newDatabases is "packed" or "plain", not ${JSON.stringify(wanted)}`);
}

function load(db, options) {
  if (isCallbackDriver(db)) return loadWithCallbacks(db, options);
  if (typeof db?.loadExtension !== "function") {
    throw new TypeError("litepack: load() takes a connection that has loadExtension()");
  }
  const sql = statement(options);
  db.loadExtension(getDefaultLoadablePath());
  if (sql) db.prepare(sql).get();
}

async function loadWithCallbacks(db, options) {
  const sql = statement(options);
  await called((done) => db.loadExtension(getDefaultLoadablePath(), done));
  if (sql) await called((done) => db.exec(sql, done));
}

function register(Database, options) {
  if (isCallbackDriver(Database?.prototype)) return registerWithCallbacks(Database, options);
  if (typeof Database?.prototype?.loadExtension !== "function") {
    throw new TypeError("litepack: register() takes a driver's class of connections, as better-sqlite3's Database");
  }
  const db = connection(Database);
  try {
    load(db, options);
  } finally {
    db.close();
  }
}

async function registerWithCallbacks(Database, options) {
  const db = await new Promise((resolve, reject) => {
    const opened = new Database(":memory:", (error) => (error ? reject(error) : resolve(opened)));
  });
  try {
    await loadWithCallbacks(db, options);
  } finally {
    await called((done) => db.close(done));
  }
}

/** A connection that may load extensions; node:sqlite wants that said, and Bun knows no such option. */
function connection(Database) {
  return process.versions.bun ? new Database(":memory:") : new Database(":memory:", { allowExtension: true });
}

/** node-sqlite3: everything it does is answered to a callback. */
function isCallbackDriver(object) {
  return typeof object?.parallelize === "function" && typeof object?.loadExtension === "function";
}

function called(start) {
  return new Promise((resolve, reject) => start((error) => (error ? reject(error) : resolve())));
}

module.exports = { getLoadablePath, getDefaultLoadablePath, getCommandPath, load, register };
