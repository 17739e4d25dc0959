// Which databases are opened in Node and which are not, what a closed one answers, and what is left of secrets.
//
// usage: node-files.mjs WORK LITEPACK

import { execFileSync } from "node:child_process";
import fs, { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { make } from "./data.mjs";
import { expect, failure, inNode, same } from "./harness.mjs";

const [work, command] = process.argv.slice(2);
const data = join(work, "data");
make(data, command);
const files = join(work, "files");
rmSync(files, { recursive: true, force: true });
mkdirSync(files);

const imported = (path) => import(pathToFileURL(join(work, "node_modules", path)));
const { default: init } = await imported("@sqlite.org/sqlite-wasm/dist/node.mjs");
const { litepack } = await imported("litepack-web/node.mjs");
const { Module } = await imported("litepack-web/host.mjs");
const { Reader } = await imported("litepack-web/reader.mjs");
const wasm = pathToFileURL(join(work, "node_modules/litepack-web/litepack.wasm"));
const reader = await litepack(await init(), { timeout: 2000 });
const { test, end } = inNode();

const at = (name) => join(files, name);
const open = (path) => reader.open(pathToFileURL(path));
const errorOf = async (path) => (await failure(open(path))).message;
/** Runs Python, which ends without closing its databases. */
const python = (program, ...args) => execFileSync("python3", ["-c", `import os, sqlite3, sys\n${program}\nos._exit(0)`, ...args]);
const database = (path, who, rows) =>
  python("db = sqlite3.connect(sys.argv[1]); db.execute('create table t(who)'); db.executemany('insert into t values(?)', [[sys.argv[2]]] * int(sys.argv[3])); db.commit()", path, who, String(rows));

for (const [name, rows] of [["a", 20], ["b", 30], ["c", 40]]) database(at(name), name, rows);

await test("nothing reads another database by the name or the object of a closed one", async () => {
  const [a, b] = [await open(at("a")), await open(at("b"))];
  b.exec(`attach '${a.dbFilename()}' as a`);
  a.close();
  const c = await open(at("c"));
  const read = await failure((async () => expect(false, b.selectArray("select who, count(*) from a.t")))());
  expect(read.resultCode === 266, read.message);
  const { message } = await failure((async () => a.traffic())());
  expect(message.includes("is closed"), message);
  same(c.selectArray("select who, count(*) from t"), ["c", 40]);
  b.close();
  c.close();
});

await test("the module gives no number twice", async () => {
  const bytes = readFileSync(at("a"));
  const headers = `Content-Range: bytes 0-${bytes.length - 1}/${bytes.length}\nETag: "a"`;
  const { module } = await Reader.start({ wasm: readFileSync(wasm), request: () => ({ status: 206, headers, body: bytes }) });
  const numbers = new Set();
  for (let n = 0; n < 3; n += 1) {
    const number = await module.open("https://data.example/a.db");
    same(module.size(number), bytes.length);
    numbers.add(number);
    module.close(number);
    const { message } = await failure((async () => module.size(number))());
    expect(message.includes("is closed"), message);
  }
  same(numbers.size, 3);
});

await test("a database with a WAL or a journal that is in use is refused", async () => {
  python("db = sqlite3.connect(sys.argv[1]); db.execute('pragma journal_mode = wal'); db.execute('create table t(x)'); db.execute('pragma wal_checkpoint'); db.execute('insert into t values(1)'); db.commit()", at("live"));
  symlinkSync(at("live"), at("link"));
  for (const name of ["live", "link"]) {
    const { message, code } = await failure(open(at(name)));
    expect(message.includes("live-wal") && message.includes("VACUUM INTO"), message);
    same(code, 14);
  }
  execFileSync("python3", ["-c", "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('select * from t').fetchall(); db.close()", at("live")]);
  const db = await open(at("live"));
  same(db.selectValue("select count(*) from t"), 1);
  db.close();
  for (const suffix of ["-wal", "-journal", "-lpw", "-lpjourn"]) {
    const path = at(`plain${suffix}.db`);
    copyFileSync(at("a"), path);
    // There is nothing in it, or it was played back and is kept.
    writeFileSync(path + suffix, suffix.includes("j") ? new Uint8Array(512) : "");
    (await open(path)).close();
    writeFileSync(path + suffix, "something");
    const error = await errorOf(path);
    expect(error.includes(`plain${suffix}.db${suffix}`), error);
  }
});

/** Does something the first time that a file is read. */
async function whenRead(action, body) {
  const { readSync } = fs;
  fs.readSync = (...what) => {
    fs.readSync = readSync;
    syncBuiltinESMExports();
    action();
    return readSync(...what);
  };
  syncBuiltinESMExports();
  await body();
}

await test("a database that begins to change while it is opened is refused, or read again", async () => {
  copyFileSync(at("a"), at("begun"));
  await whenRead(() => writeFileSync(at("begun-wal"), "something"), async () => {
    const error = await errorOf(at("begun"));
    expect(error.includes("begun-wal"), error);
  });
  copyFileSync(at("a"), at("touched"));
  await whenRead(() => utimesSync(at("touched"), 1, 1), async () => {
    const db = await open(at("touched"));
    same(db.traffic().retries, 1);
    expect(db.traffic().validator.includes(`-${statSync(at("touched"), { bigint: true }).mtimeNs}-`), db.traffic());
    db.close();
  });
});

await test("what is no file that can be read is said in words for files, at once", async () => {
  execFileSync("mkfifo", [at("pipe")]);
  for (const [path, words] of [["none", "there is no such file"], ["pipe", "this is no file"], [".", "this is no file"], ["a/b", "ENOTDIR"]]) {
    const begun = performance.now();
    const { message, code } = await failure(open(at(path)));
    expect(message.includes(words) && !message.includes("server"), `${path}: ${message}`);
    same(code, 14);
    expect(performance.now() - begun < 150, `${path} took ${performance.now() - begun} ms`);
  }
  copyFileSync(join(data, "titles.db"), at("goes"));
  const db = await open(at("goes"));
  rmSync(at("goes"));
  const { message } = await failure((async () => db.selectValue("select sum(year) from title"))());
  expect(message.includes("there is no such file") && !message.includes("server"), message);
  db.close();
});

await test("no error shows what is secret in a URL", async () => {
  const request = (url) => {
    throw new TypeError(`cannot load ${url}`);
  };
  const other = await litepack(await init(), { request });
  for (const [of, url, words] of [
    [reader, "http://127.0.0.1:9/x.db?token=s3cret", "no answer"],
    [reader, "http://user:s3cret@127.0.0.1:9/x.db", "a user and a password"],
    [reader, "https://user:s3cret@bad[host/x.db", "no URL"],
    [other, "http://127.0.0.1:9/x.db?token=s3cret", "TypeError"],
  ]) {
    const error = await failure(of.open(url));
    const all = [error.message, error.stack, error.input, error.cause?.message, error.cause?.stack].join();
    expect(error.message.includes(words) && !all.includes("s3cret"), all);
  }
});

await test("a key is wiped when opening fails before the module has it, and when the module stops", async () => {
  const { encode } = TextEncoder.prototype;
  const { instantiate } = WebAssembly;
  const made = [];
  let memory;
  try {
    TextEncoder.prototype.encode = function (text) {
      made.push(encode.call(this, text));
      return made.at(-1);
    };
    const module = await Module.load(readFileSync(wasm), () => ({}), 1000);
    const long = await failure(module.open(`file:///${"x".repeat(2 << 20)}`, "s3cret"));
    expect(long.message.includes("too long"), long.message);
    WebAssembly.instantiate = async (...what) => {
      const { exports } = await instantiate(...what);
      memory = exports.memory;
      return { exports: { ...exports, litepack_open: () => { throw new WebAssembly.RuntimeError("unreachable"); } } };
    };
    const stopped = await Module.load(await WebAssembly.compile(readFileSync(wasm)), () => ({}), 1000);
    const trap = await failure(stopped.open("file:///x", "s3cret"));
    expect(trap.message.includes("has stopped"), trap.message);
  } finally {
    TextEncoder.prototype.encode = encode;
    WebAssembly.instantiate = instantiate;
  }
  expect(made.length >= 4, `${made.length} texts`);
  expect(!made.some((bytes) => Buffer.from(bytes).includes("s3cret")), "JavaScript's copy is there");
  expect(!Buffer.from(memory.buffer).includes("s3cret"), "the module's copy is there");
});

await test("options are looked at: a time that is none is an error, a module may be a file", async () => {
  for (const timeout of [0, -1, 1.5, NaN, Infinity, 2 ** 31, null, "2000"]) {
    const { message } = await failure(litepack(await init(), { timeout }));
    expect(message.includes("`timeout` is a whole number"), `${timeout}: ${message}`);
  }
  for (const module of [wasm, wasm.href]) {
    const db = await (await litepack(await init(), { wasm: module, timeout: 2 ** 31 - 1 })).open(pathToFileURL(at("a")));
    same(db.selectValue("select count(*) from t"), 20);
    db.close();
  }
});

end();
