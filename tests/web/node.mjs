// The tests in Node, without a browser and without native code: answers and errors, what is left in the module's memory,
// and what a file can make it take.
//
// usage: node.mjs WORK LITEPACK

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { FILES, KEY, RAW, SQL, answersIn, make } from "./data.mjs";
import { expect, inNode, same } from "./harness.mjs";

const [work, command] = process.argv.slice(2);
const data = join(work, "data");
make(data, command);
const native = answersIn(data);
const thread = new Worker(new URL("apart.mjs", import.meta.url), { workerData: { data } });
const server = { url: await new Promise((done) => thread.once("message", done)) };

// The module's memory, as the page has it.
let memory;
const { instantiate } = WebAssembly;
WebAssembly.instantiate = async (...what) => {
  const made = await instantiate(...what);
  const { exports } = made.instance ?? made;
  if (exports.litepack_open) memory = exports.memory;
  return made;
};

const modules = join(work, "node_modules");
const imported = (path) => import(pathToFileURL(join(modules, path)));
const { default: init } = await imported("@sqlite.org/sqlite-wasm/dist/node.mjs");
const { litepack } = await imported("litepack-web/node.mjs");
const reader = await litepack(await init(), { timeout: 2000 });
const query = (db, sql) => db.exec({ sql, rowMode: "array", returnValue: "resultRows" });

const { test, end } = inNode();

/** The error of opening a file and asking it. */
async function errorOf(url, key) {
  let db;
  try {
    db = await reader.open(url, { key });
    SQL.forEach((sql) => query(db, sql));
  } catch (error) {
    return error.message;
  } finally {
    db?.close();
  }
  return "none";
}

for (const [kind, file, key] of FILES) {
  await test(`${file}: the answers are those of the plain file, from a server and from the disk`, async () => {
    for (const url of [`${server.url}/data/${file}`, pathToFileURL(join(data, file))]) {
      const db = await reader.open(url, { key });
      same(SQL.map((sql) => query(db, sql)), native);
      same(db.traffic().kind, kind);
      db.close();
    }
  });
}

await test("errors say what is wrong", async () => {
  for (const [path, words] of [
    ["data/none.db", "404"],
    ["whole/data/titles.db", "sends the whole file"],
    ["later-whole/data/titles.db", "sends the whole file"],
    ["changing/data/titles.packed", "has changed since it was opened"],
    ["compressing/data/titles.packed", "encoded on the way"],
    ["later-endless/data/titles.packed", "goes on after"],
    ["silent/data/titles.packed", "no whole answer came within 2000 ms"],
    ["data/short.packed", "damaged"],
  ]) {
    const error = await errorOf(`${server.url}/${path}`);
    expect(error.includes(words), `${path}: ${error}`);
  }
  const taken = await (await fetch(`${server.url}/control/taken`)).json();
  expect(taken > 0 && taken < 8e6, `${taken} bytes of a whole file were taken`);
});

await test("a file of this machine that changes is an error", async () => {
  const file = join(data, "changes.packed");
  writeFileSync(file, readFileSync(join(data, "titles.packed")));
  const db = await reader.open(pathToFileURL(file));
  same(query(db, SQL[0]), native[0]);
  writeFileSync(file, readFileSync(join(data, "wal.packed")));
  let error;
  try {
    query(db, SQL[1]);
  } catch (thrown) {
    error = thrown.message;
  }
  db.close();
  expect(error?.includes("has changed since it was opened"), error);
});

await test("no key is in the module's memory when the database is closed, nor a wrong one", async () => {
  const bytes = (text) => Buffer.from(text);
  const holds = (what) => Buffer.from(memory.buffer).includes(what);
  // What is there is found.
  const open = await reader.open(`${server.url}/data/titles.packed`);
  expect(holds(bytes(`${server.url}/data/titles.packed`)), "the memory is another one");
  open.close();
  for (const [file, key, raw] of [["titles.locked", KEY], ["titles.locked.zst", KEY], ["raw.locked", `raw:${RAW}`, Buffer.from(RAW, "hex")]]) {
    const db = await reader.open(pathToFileURL(join(data, file)), { key });
    same(query(db, SQL[0]), native[0]);
    db.close();
    expect(!holds(bytes(key.slice(4))), `${file}: the text of its key is there`);
    expect(!raw || !holds(raw), `${file}: its key is there`);
    same(await errorOf(pathToFileURL(join(data, file)), `${key.slice(0, -1)}0`).then((error) => error.includes("wrong key")), true);
    expect(!holds(bytes(key.slice(4, -1))), `${file}: the text of a wrong key is there`);
  }
});

/** XXH64 with seed 0 of whole stripes of 32 bytes and words of 8 behind them. */
function xxh64(bytes) {
  const [P1, P2, P3, P4, P5] = [
    0x9e3779b185ebca87n, 0xc2b2ae3d27d4eb4fn, 0x165667b19e3779f9n, 0x85ebca77c2b2ae63n, 0x27d4eb2f165667c5n,
  ];
  const cut = (n) => BigInt.asUintN(64, n);
  const turn = (n, by) => cut((n << by) | (n >> (64n - by)));
  const round = (sum, word) => cut(turn(cut(sum + word * P2), 31n) * P1);
  const words = Array.from({ length: bytes.length / 8 }, (_, n) => bytes.readBigUInt64LE(n * 8));
  const lanes = [cut(P1 + P2), P2, 0n, cut(-P1)];
  const striped = words.length - (words.length % 4);
  for (let n = 0; n < striped; n += 1) lanes[n % 4] = round(lanes[n % 4], words[n]);
  let sum = cut(turn(lanes[0], 1n) + turn(lanes[1], 7n) + turn(lanes[2], 12n) + turn(lanes[3], 18n));
  for (const lane of lanes) sum = cut((sum ^ round(0n, lane)) * P1 + P4);
  sum = cut(sum + BigInt(bytes.length));
  for (const word of words.slice(striped)) sum = cut(turn(sum ^ round(0n, word), 27n) * P1 + P4);
  sum = cut((sum ^ (sum >> 33n)) * P2);
  sum = cut((sum ^ (sum >> 29n)) * P3);
  return sum ^ (sum >> 32n);
}

await test("a file cannot make it take more than 128 MB", async () => {
  const archive = readFileSync(join(data, "titles.locked.zst"));
  expect(archive.readBigUInt64LE(496) === xxh64(archive.subarray(0, 496)), "the checksum is another one");
  // A passphrase that takes 256 MiB to try, which other readers allow (docs/format.md, key blocks).
  archive.writeUInt32LE(256 << 10, 64);
  archive.writeBigUInt64LE(xxh64(archive.subarray(0, 496)), 496);
  writeFileSync(join(data, "greedy.zst"), archive);
  const error = await errorOf(`${server.url}/data/greedy.zst`, KEY);
  expect(error.includes("memory"), error);
  expect(reader.memory <= 64 << 20, `${reader.memory >> 20} MB`);
  let grown = true;
  try {
    memory.grow(((128 << 20) - memory.buffer.byteLength) / 65536 + 1);
  } catch {
    grown = false;
  }
  expect(!grown, "its memory has no limit");
  const db = await reader.open(`${server.url}/data/titles.packed`);
  same(query(db, SQL[0]), native[0]);
  db.close();
});

await test("a file with other bytes is an error or answers as before, and the reader goes on", async () => {
  const seed = Number(process.env.LITEPACK_SEED ?? Date.now() % 1e6);
  console.log(`   LITEPACK_SEED=${seed}`);
  let state = seed;
  const random = (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const sql = "select count(*), sum(year), sum(length(about)) from title";
  const sound = await reader.open(pathToFileURL(join(data, "wal.db")));
  const expected = query(sound, sql);
  sound.close();
  let errors = 0;
  for (let round = 0; round < 300; round += 1) {
    const kind = ["packed", "zst", "db"][round % 3];
    const bytes = readFileSync(join(data, `wal.${kind}`));
    for (let change = 0; change < 1 + random(4); change += 1) {
      // Mostly where a file says what it has: its beginning, and the end of an archive.
      const at = [random(200), random(8192), bytes.length - 1 - random(200), random(bytes.length)][random(4)];
      if (random(2)) bytes[at] = random(256);
      else bytes.fill([0, 0x7f, 0xff][random(3)], at, Math.min(at + 4, bytes.length));
    }
    const file = join(data, "other.db");
    writeFileSync(file, bytes);
    let db, found, message;
    try {
      db = await reader.open(pathToFileURL(file));
      found = query(db, sql);
    } catch (error) {
      message = error.message;
      errors += 1;
    } finally {
      db?.close();
    }
    expect(!message?.includes("has stopped"), `round ${round}, ${kind}: ${message}`);
    // Nothing tells the bytes of a plain database from others.
    if (found && kind !== "db") same(found, expected);
  }
  // A database that says it has 2^32 - 2 pages.
  const plain = readFileSync(join(data, "wal.db"));
  plain.writeUInt32BE(0xfffffffe, 28);
  writeFileSync(join(data, "other.db"), plain);
  const error = await errorOf(pathToFileURL(join(data, "other.db")));
  expect(/malformed|none/.test(error), error);
  console.log(`   ${errors} of 300 are errors; ${reader.memory >> 20} MB`);
  expect(errors > 50 && reader.memory <= 64 << 20, `${errors} errors, ${reader.memory >> 20} MB`);
});

await test("the process ends when the program does", async () => {
  const program = `
    import init from "@sqlite.org/sqlite-wasm";
    import { litepack } from "litepack-web";
    const reader = await litepack(await init());
    const db = await reader.open(${JSON.stringify(pathToFileURL(join(data, "wal.packed")).href)});
    console.log(db.selectValue("select count(*) from title"));`;
  const file = join(work, "program.mjs");
  writeFileSync(file, program);
  const { stdout, status, stderr } = spawnSync("node", [file], { timeout: 20_000 });
  expect(status === 0 && stdout.toString() === "1000\n", `${status} ${stdout} ${stderr}`);
});

end();
