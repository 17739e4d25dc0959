// The tests with wa-sqlite in Chromium.
//
// usage: wa.mjs WORK LITEPACK

import { FILES, SQL } from "./data.mjs";
import { expect, same, start } from "./harness.mjs";

const [work, command] = process.argv.slice(2);
const { page, test, fails, end, native } = await start(work, command);
const WA = "?worker=worker-wa.mjs";

for (const [kind, file, key] of FILES) {
  await test(`wa-sqlite, ${file}: the answers are those of the plain file`, async (ask) => {
    const found = await ask({ url: `${page.url}/data/${file}`, key, sql: SQL });
    expect(!found.error, found);
    same(found.answers.map(({ rows }) => rows), native);
    same(found.traffic.kind, kind);
  }, WA);
}
await fails("wa-sqlite, a file that changes", page, "changing/data/titles.packed", "has changed since it was opened", { on: WA });
await fails("wa-sqlite, a file that is not there", page, "data/none.db", "404", { on: WA });
await fails("wa-sqlite, a file that was cut", page, "data/short.packed", "damaged", { on: WA });
await fails("wa-sqlite, a write", page, "data/titles.packed", "readonly", { on: WA, sql: ["delete from title"] });

await end();
