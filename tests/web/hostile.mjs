// The tests of servers that send something else than they were asked for, and of many databases: an error or the right
// answer, in bounded time and memory.
//
// usage: hostile.mjs WORK LITEPACK

import { FILES, SQL } from "./data.mjs";
import { expect, same, start } from "./harness.mjs";

const [work, command] = process.argv.slice(2);
const { page, elsewhere, silent, test, fails, end, native } = await start(work, command);
const PACKED = "data/titles.packed";
const SOON = { on: "?timeout=1500" };

// From the first answer on, and only once the file is open: the one comes by fetch(), the others by XMLHttpRequest.
for (const when of ["", "later-"]) {
  const name = (what) => `${what}${when && ", once the file is open,"}`;
  await fails(name("an answer to another question"), page, `${when}another/${PACKED}`, "were asked for");
  await fails(name("an answer that says it is longer"), page, `${when}longer/${PACKED}`, "were asked for");
  await fails(name("an answer with a byte too few"), page, `${when}short/${PACKED}`, ["no answer after 3 attempts", "ended after"]);
  // Chromium cuts some of these off by itself where they should end, and calls others a failure.
  for (const [what, fault] of [["an answer that goes on", "long"], ["an answer without end", "endless"]]) {
    await test(`${name(what)} is an error or makes no difference`, async (ask) => {
      page.flowed = 0;
      const found = await ask({ url: `${page.url}/${when}${fault}/${PACKED}`, sql: SQL });
      if (!found.error) same(found.answers.map(({ rows }) => rows), native);
      else expect(/goes on after|no answer after 3 attempts/.test(found.error), found);
      console.log(`   ${found.error ? "an error" : "no difference"}, ${page.flowed} bytes more`);
      expect(page.flowed < 64e6 && found.memory <= 64 << 20, `${page.flowed} bytes were taken, ${found.memory}`);
    });
  }
  await fails(name("an answer in several parts"), page, `${when}parts/${PACKED}`, "Content-Range");
  await fails(name("a server that compresses"), page, `${when}compressing/${PACKED}`, "no answer");
  await fails(name("a server that leads in a circle"), page, `${when}circle/${PACKED}`, "no answer");
  await fails(name("a server that forgets ranges"), page, `${when}whole/${PACKED}`, "sends the whole file");
  await fails(name("an answer that does not come"), page, `${when}silent/${PACKED}`, "no answer after 3 attempts", SOON);
  await fails(name("an answer that hardly comes"), page, `${when}dripping/${PACKED}`, "no answer after 3 attempts", SOON);
}
await fails("a file that has grown", page, `later-grown/${PACKED}`, ["has changed since it was opened", "length"]);

await test("a server may lead to another place", async (ask) => {
  page.elsewhere = elsewhere.url;
  for (const to of ["moved", "away", "later-moved", "later-away"]) {
    const found = await ask({ url: `${page.url}/${to}/${PACKED}`, sql: [SQL[0]] });
    same(found.answers?.[0].rows, native[0]);
  }
});
page.elsewhere = silent.url;
await fails("a server that leads to another origin, which does not allow it,", page, `away/${PACKED}`, "no answer");
page.elsewhere = `${elsewhere.url}/hidden`;
await fails("a server that leads to another origin, which hides headers,", page, `away/${PACKED}`, "Access-Control-Expose-Headers");

await test("a worker that waits can be ended, and another one reads", async (ask, tab) => {
  const begun = Date.now();
  ask({ url: `${page.url}/later-silent/${PACKED}`, sql: SQL }).catch(() => {});
  while (!page.requests.some(({ start }) => start > 0)) await new Promise((done) => setTimeout(done, 50));
  await tab.evaluate(() => window.restart());
  const found = await ask({ url: `${page.url}/${PACKED}`, sql: [SQL[0]] });
  same(found.answers?.[0].rows, native[0]);
  expect(Date.now() - begun < 20_000, `${Date.now() - begun} ms`);
});

await test("a database opened and closed a hundred times takes no more memory", async (ask) => {
  const sizes = [];
  for (let round = 0; round < 100; round += 1) {
    const [, file, key] = FILES[round % FILES.length];
    const found = await ask({ url: `${page.url}/data/${file}`, key, sql: [SQL[0], SQL[3]] });
    same(found.answers?.[0].rows, native[0]);
    sizes.push([found.memory, found.ofSqlite]);
  }
  console.log(`   ${sizes[19].map((size) => size >> 20)} and ${sizes[99].map((size) => size >> 20)} MB`);
  same(sizes[99], sizes[19]);
  expect(sizes[99][0] <= 64 << 20, `the reader has ${sizes[99][0] >> 20} MB`);
});

await test("an error in opening or reading takes no memory either", async (ask) => {
  const sizes = [];
  for (let round = 0; round < 60; round += 1) {
    const [path, key] = [["data/none.db"], ["data/titles.locked", "wrong"], [`later-another/${PACKED}`], ["data/text.db"]][round % 4];
    const found = await ask({ url: `${page.url}/${path}`, key, sql: SQL });
    expect(found.error, found);
    sizes.push([found.memory, found.ofSqlite]);
  }
  same(sizes[59], sizes[11]);
});

await test("several databases are open at once, and each answers as it would alone", async (ask) => {
  let found;
  for (let round = 0; round < 4; round += 1) {
    for (let n = 0; n < 25; n += 1) {
      const [, file, key] = FILES[n % FILES.length];
      found = await ask({ url: `${page.url}/data/${file}`, key, keep: `${n}`, sql: [SQL[round]], close: round === 3 && n % 2 });
      same(found.answers?.[0].rows, native[round]);
    }
  }
  console.log(`   ${found.memory >> 20} MB with 25 databases`);
  expect(found.memory <= 64 << 20, `the reader has ${found.memory >> 20} MB`);
});

await end();
