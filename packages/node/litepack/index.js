// Finds the extension in the package for this platform, and loads it into a driver's SQLite.
//
// Nothing is done when this is required, so that a program that only wants a path gets only that.
"use strict";

const path = require("node:path");

/** This system, as the packages with binaries are called. On Linux the C library counts, too. */
function platform() {
  const name = `${process.platform}-${process.arch}`;
  return process.platform === "linux" && hasMusl() ? `${name}-musl` : name;
}

/** Whether this program has the C library musl: it names no version of glibc then. */
function hasMusl() {
  const report = process.report;
  if (!report) return false;
  // Else it asks name servers about each connection.
  const before = report.excludeNetwork;
  report.excludeNetwork = true;
  try {
    return !report.getReport().header.glibcVersionRuntime;
  } finally {
    report.excludeNetwork = before;
  }
}

/** The folder with the binaries, which is another package: npm installs the one that fits. */
function folder() {
  const name = `litepack-${platform()}`;
  try {
    return path.dirname(require.resolve(`${name}/package.json`));
  } catch (cause) {
    const message =
      `litepack: the package ${name} with the binaries is not installed. Either there is none for this system, or npm ` +
      "left it out: install without --omit=optional, on the system on which the program runs";
    throw Object.assign(new Error(message, { cause }), { code: "ERR_LITEPACK_PLATFORM" });
  }
}

function getLoadablePath(options) {
  const name = options?.configure ? "litepackconfigure" : options?.default ? "litepackdefault" : "litepack";
  const suffix = { win32: ".dll", darwin: ".dylib" }[process.platform] ?? ".so";
  // The other two are names that programs ask for, without a prefix.
  const prefix = name === "litepack" && process.platform !== "win32" ? "lib" : "";
  return path.join(folder(), prefix + name + suffix);
}

function getCommandPath() {
  return path.join(folder(), process.platform === "win32" ? "litepack.exe" : "litepack");
}

function load(db, options) {
  if (typeof db?.loadExtension !== "function") {
    throw new TypeError("litepack: load() takes a connection that has loadExtension()");
  }
  const file = getLoadablePath(options);
  if (isCallbackDriver(db)) return called((done) => db.loadExtension(file, done));
  db.loadExtension(file);
}

function register(Database, options) {
  if (typeof Database?.prototype?.loadExtension !== "function") {
    throw new TypeError("litepack: register() takes a driver's class of connections, as better-sqlite3's Database");
  }
  const sql = forNewDatabases(options?.newDatabases);
  if (isCallbackDriver(Database.prototype)) return registerWithCallbacks(Database, sql);
  const db = connection(Database);
  try {
    load(db, { default: true });
    load(db, { configure: true });
    db.prepare(sql).get();
  } finally {
    db.close();
  }
}

async function registerWithCallbacks(Database, sql) {
  const db = await new Promise((resolve, reject) => {
    const opened = new Database(":memory:", (error) => (error ? reject(error) : resolve(opened)));
  });
  try {
    await load(db, { default: true });
    await load(db, { configure: true });
    await called((done) => db.exec(sql, done));
  } finally {
    await called((done) => db.close(done));
  }
}

function giveKey(db, key) {
  const sql = pragmaOf(key);
  if (isCallbackDriver(db)) return giveKeyByCallbacks(db, sql);
  if (typeof db?.prepare !== "function") throw new TypeError("litepack: giveKey() takes a connection");
  if (!answer(db, IS_OURS)) throw notOurs();
  // SQLite takes the key while it prepares the pragma. What is not run is in no log of statements that were run.
  db.prepare(sql).finalize?.();
  if (!answer(db, IS_ENCRYPTED)) throw notOurs();
}

/** Whether a pragma has an answer. */
function answer(db, sql) {
  const statement = db.prepare(sql);
  try {
    // Some drivers refuse to get rows of what has no columns.
    return statement.reader !== false && statement.get();
  } finally {
    statement.finalize?.();
  }
}

async function giveKeyByCallbacks(db, sql) {
  const ask = (pragma) =>
    new Promise((resolve, reject) => db.get(pragma, (error, row) => (error ? reject(error) : resolve(row))));
  if (!(await ask(IS_OURS))) throw notOurs();
  // As above.
  const statement = await new Promise((resolve, reject) => {
    // Under verbose() the driver writes the statement into the stack of its error.
    const without = ({ message, code, errno }) => Object.assign(new Error(message), { code, errno });
    const prepared = db.prepare(sql, (error) => (error ? reject(without(error)) : resolve(prepared)));
  });
  await new Promise((resolve) => statement.finalize(resolve));
  if (!(await ask(IS_ENCRYPTED))) throw notOurs();
}

// The first is asked before the key is given: a SQLite with keys of its own would take it, or crash (libsql).
const IS_OURS = "pragma litepack_version";
const IS_ENCRYPTED = "pragma cipher_version";

function notOurs() {
  const message =
    "litepack: there is a key, and the database is not encrypted by Litepack: it is not encrypted, or this " +
    "connection's SQLite is not Litepack's";
  return Object.assign(new Error(message), { code: "ERR_LITEPACK_NOT_ENCRYPTED" });
}

/** The statement, which is shown to nobody. */
function pragmaOf(key) {
  if (key instanceof Uint8Array) {
    if (key.length !== 32) throw new TypeError("litepack: a key of bytes has 32 of them; a passphrase is a string");
    return `pragma key = "x'${Buffer.from(key).toString("hex")}'"`;
  }
  if (typeof key !== "string" || key === "") throw new TypeError("litepack: a key is a string, or 32 bytes");
  if (key.includes("\0")) throw new TypeError("litepack: a key has no null character");
  return `pragma key = '${key.replaceAll("'", "''")}'`;
}

/** SQL that says what they become; or that only asks. */
function forNewDatabases(wanted) {
  if (wanted === undefined) return "select litepack_new_databases()";
  if (wanted === "packed" || wanted === "plain") return `select litepack_new_databases('${wanted}')`;
  throw new TypeError(`litepack: newDatabases is "packed" or "plain", not ${JSON.stringify(wanted)}`);
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

module.exports = { getLoadablePath, getCommandPath, giveKey, load, register };
