// The tests in Chromium: answers, requests, errors, memory and size.
//
// usage: browser.mjs WORK LITEPACK

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync } from "node:zlib";
import { FILES, KEY, SQL } from "./data.mjs";
import { expect, same, start } from "./harness.mjs";

const [work, command] = process.argv.slice(2);
const { data, page, elsewhere, silent, test, fails, end, native } = await start(work, command);
const NEAR = `${page.url}/data`;

for (const [kind, file, key] of FILES) {
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
await test("no error shows what is secret in a URL", async (ask) => {
  for (const [url, words] of [
    ["http://127.0.0.1:9/titles.db?token=s3cret", "NetworkError"],
    [`${NEAR.replace("//", "//user:s3cret@")}/titles.db`, "a user and a password"],
    ["https://user:s3cret@bad[host/titles.db", "no URL"],
  ]) {
    const { error } = await ask({ url, sql: SQL });
    expect(error?.includes(words) && !error.includes("s3cret"), error);
  }
});
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
  const size = brotliCompressSync(readFileSync(join(work, "package/litepack.wasm"))).length;
  console.log(`   ${size} bytes`);
  expect(size <= 500_000, `${size} bytes`);
});

await end();
