// The tests: a page of Chromium's, a worker in it, and a server that is late and wrong where a test says so.
//
// usage: browser.mjs WORK LITEPACK

import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { brotliCompressSync } from "node:zlib";
import { serve } from "../../packages/web/demo/server.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const [work, command] = process.argv.slice(2);
const require = createRequire(join(work, "package.json"));
const puppeteer = (await import(pathToFileURL(require.resolve("puppeteer-core")))).default;
const sourcePackage = join(work, "package");

// Data: 200,000 titles plain, packed, as an archive, encrypted, and in WAL mode.
const data = join(work, "data");
const ROWS = 200_000;
const KEY = "correct horse";
if (!existsSync(join(data, "done"))) {
  rmSync(data, { recursive: true, force: true });
  mkdirSync(data, { recursive: true });
  const run = (program, ...args) => execFileSync(program, args, { cwd: data, stdio: ["ignore", "ignore", "inherit"] });
  run("python3", join(here, "../../packages/web/demo/titles.py"), "titles.db", String(ROWS));
  run("python3", join(here, "../../packages/web/demo/titles.py"), "wal.db", "1000", "--wal");
  run(command, "pack", "titles.db", "titles.packed");
  run(command, "pack", "wal.db", "wal.packed");
  run(command, "archive", "create", "titles.db", "titles.zst");
  writeFileSync(join(data, "key"), KEY);
  run(command, "pack", "--encrypt", "--key-file", "key", "titles.db", "titles.locked");
  run(command, "archive", "create", "--encrypt", "--key-file", "key", "titles.db", "titles.locked.zst");
  copyFileSync(join(data, "titles.packed"), join(data, "short.packed"));
  truncateSync(join(data, "short.packed"), statSync(join(data, "short.packed")).size - 100_000);
  writeFileSync(join(data, "text.db"), "this is no database\n".repeat(1000));
  writeFileSync(join(data, "empty.db"), "");
  writeFileSync(join(data, "done"), "");
}

const folders = { web: here, data, package: sourcePackage, modules: join(work, "node_modules") };
const page = await serve({ ...folders, "worker.mjs": join(here, "worker.mjs"), "page.html": join(here, "page.html") });
const elsewhere = await serve(folders, { other: true });
const silent = await serve(folders);
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});

let failed = 0;
const only = process.env.ONLY;
async function test(name, body) {
  if (only && !name.includes(only)) return;
  const tab = await browser.newPage();
  const said = [];
  tab.on("console", (message) => said.push(message.text()));
  tab.on("pageerror", (error) => said.push(error.message));
  try {
    await tab.goto(`${page.url}/page.html`);
    const ask = (request) => tab.evaluate((request) => window.ask(request), { sql: [], ...request });
    await body(ask);
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${error.message}`);
    for (const line of said) console.log(`    ${line}`);
  } finally {
    await tab.close();
    for (const server of [page, elsewhere, silent]) {
      server.delay = 0;
      server.requests.length = 0;
      server.flips.clear();
      server.sent.clear();
    }
  }
}

function expect(condition, what) {
  if (!condition) throw new Error(typeof what === "string" ? what : JSON.stringify(what));
}

function same(found, expected) {
  expect(JSON.stringify(found) === JSON.stringify(expected), `${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
}

const NEAR = `${page.url}/data`;
const SQL = [
  "select name, year from title where id = 123456",
  "select count(*), sum(year), sum(length(about)) from title",
  "select count(*) from title where year = 1999",
  "select name from title order by name desc limit 3",
];
const native = JSON.parse(
  execFileSync("python3", [
    "-c",
    "import json, sqlite3, sys; db = sqlite3.connect(sys.argv[1]); print(json.dumps([db.execute(sql).fetchall() for sql in sys.argv[2:]]))",
    join(data, "titles.db"),
    ...SQL,
  ]).toString(),
);

for (const [kind, file, key] of [
  ["plain", "titles.db"], ["packed", "titles.packed"], ["archive", "titles.zst"],
  ["packed", "titles.locked", KEY], ["archive", "titles.locked.zst", KEY],
]) {
  await test(`${file}: the answers are those of the plain file, in 64 MB of memory`, async (ask) => {
    const found = await ask({ url: `${NEAR}/${file}`, key, sql: SQL });
    expect(!found.error, found);
    same(found.answers.map(({ rows }) => rows), native);
    same(found.traffic.kind, kind);
    console.log(`   ${found.memory >> 20} MB`);
    expect(found.memory <= 64 << 20, `the reader has ${found.memory >> 20} MB`);
  });
}

await test("a database in WAL mode is read, too", async (ask) => {
  for (const file of ["wal.db", "wal.packed"]) {
    const found = await ask({ url: `${NEAR}/${file}`, sql: ["select count(*) from title"] });
    same(found.answers?.[0].rows, [[1000]]);
  }
});

await test("the first row takes at most 3 requests, and little time beyond their delay", async (ask) => {
  await ask({ url: `${NEAR}/wal.packed`, sql: ["select 1"] });
  for (const [file, most] of [["titles.packed", 3], ["titles.db", 4], ["titles.zst", 6]]) {
    page.delay = 50;
    page.requests.length = 0;
    const found = await ask({ url: `${NEAR}/${file}`, sql: [SQL[0]] });
    expect(!found.error, found);
    const { requests, bytes } = found.traffic;
    same(requests, page.requests.length);
    console.log(`   ${file}: ${requests} requests, ${bytes} bytes, ${Math.round(found.milliseconds)} ms`);
    expect(requests <= most, `${requests} requests`);
    expect(found.milliseconds < requests * 50 + 300, `${found.milliseconds} ms`);
  }
});

await test("10,000 rows of a scan come in 2 s", async (ask) => {
  page.delay = 50;
  const sql = "select count(*), max(about) from (select about from title limit 10000)";
  const found = await ask({ url: `${NEAR}/titles.packed`, sql: [sql] });
  console.log(`   ${found.traffic?.requests} requests, ${Math.round(found.milliseconds)} ms`);
  expect(found.answers?.[0].rows[0][0] === 10_000 && found.milliseconds < 2000, found);
});

/** Opening and a query of `path` on `server` fail, with this in the error. */
const fails = (name, server, path, words, more = {}) =>
  test(`${name} is an error that says so`, async (ask) => {
    const found = await ask({ url: `${server.url}/${path}`, sql: SQL, ...more });
    for (const word of [words].flat()) expect(found.error?.includes(word), found);
  });

await fails("a file that is not there", page, "data/none.db", ["404", "no such file", "none.db"]);
await fails("a server that refuses", page, "forbidden/data/titles.db", "403");
await fails("a server without ranges", page, "whole/data/titles.db", ["sends the whole file", "range requests"]);
await test("a file that is sent whole is not taken whole", async (ask) => {
  await ask({ url: `${page.url}/whole/data/titles.db`, sql: SQL });
  await new Promise((done) => setTimeout(done, 1000));
  console.log(`   ${page.taken} bytes of ${statSync(join(data, "titles.db")).size}`);
  expect(page.taken > 0 && page.taken < 8e6, `${page.taken} bytes`);
});
await fails("a file that changes", page, "changing/data/titles.packed", ["has changed since it was opened", "another"]);
await fails("a server that names no version", page, "unnamed/data/titles.db", "neither a strong ETag nor Last-Modified");
await fails("a server that compresses", page, "compressing/data/titles.packed", ["no answer", "compresses the parts"]);
await fails("an answer that is cut off", page, "cut/data/titles.packed", "no answer after 3 attempts");
await fails("a part that was not asked for", page, "shifted/data/titles.packed", "damaged");
await fails("another origin without CORS", silent, "data/titles.packed", ["another origin", "Access-Control-Allow-Origin"]);
await fails("hidden headers", elsewhere, "hidden/data/titles.packed", ["Content-Range", "Access-Control-Expose-Headers"]);
await fails("a server that is not there", { url: "http://127.0.0.1:9" }, "titles.db", "no answer");
await fails("text", page, "data/text.db", "neither a packed file nor an archive nor a SQLite database");
await fails("an empty file", page, "data/empty.db", "empty");
await fails("a file that was cut", page, "data/short.packed", "damaged");
await fails("a missing key", page, "data/titles.locked", "encrypted");
await fails("a wrong key", page, "data/titles.locked", "wrong key", { key: "battery staple" });
await fails("a key for a plain database", page, "data/titles.db", "not encrypted", { key: KEY });
await fails("a write", page, "data/titles.packed", "readonly", { sql: ["delete from title"] });

await test("another origin that allows it is read", async (ask) => {
  const found = await ask({ url: `${elsewhere.url}/data/titles.packed`, sql: [SQL[0]] });
  same(found.answers?.[0].rows, native[0]);
});

await test("a passing failure is tried again", async (ask) => {
  const found = await ask({ url: `${page.url}/once/data/titles.packed`, sql: SQL });
  same(found.answers?.map(({ rows }) => rows), native);
  same(found.traffic.retries, 1);
});

await test("a byte that is another one is an error or no difference, wherever it is", async (ask) => {
  for (const file of ["titles.packed", "titles.zst"]) {
    const { size } = statSync(join(data, file));
    let errors = 0;
    for (let n = 0; n < 40; n += 1) {
      const at = Math.floor((size * (n + 0.5)) / 40);
      page.flips.set(`/data/${file}`, [at]);
      const found = await ask({ url: `${NEAR}/${file}`, sql: [SQL[1], SQL[2]] });
      if (found.error) {
        expect(found.error.includes("damaged") || found.error.includes("another origin"), found);
        errors += 1;
      } else {
        same(found.answers.map(({ rows }) => rows), native.slice(1, 3));
      }
    }
    console.log(`   ${file}: ${errors} of 40 bytes were needed, and each was an error`);
    expect(errors > 10, `${errors} errors`);
  }
});

await test("the module has at most 500 kB under brotli", async () => {
  const size = brotliCompressSync(readFileSync(join(sourcePackage, "litepack.wasm"))).length;
  console.log(`   ${size} bytes`);
  expect(size <= 500_000, `${size} bytes`);
});

await browser.close();
for (const server of [page, elsewhere, silent]) server.close();
console.log(failed ? `${failed} failed` : "all passed");
process.exit(failed ? 1 : 0);
