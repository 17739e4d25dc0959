// What queries take in Chromium, with answers that come 50 ms late, as a table. An empty reader for each.
//
// usage: measure.mjs WORK FOLDER...    folders with titles.db, titles.packed and titles.zst

import { statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { serve } from "../../packages/web/demo/server.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const [work, ...folders] = process.argv.slice(2).map((path) => resolve(path));
const require = createRequire(join(work, "package.json"));
const puppeteer = (await import(pathToFileURL(require.resolve("puppeteer-core")))).default;
const served = {
  package: join(work, "package"), modules: join(work, "node_modules"),
  "worker.mjs": join(here, "worker.mjs"), "page.html": join(here, "page.html"),
};
for (const folder of folders) served[basename(folder)] = folder;
const server = await serve(served, { delay: 50 });
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});

const size = (bytes) => (bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB`);
const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];
const KEYS = [0.11, 0.23, 0.37, 0.42, 0.58, 0.63, 0.71, 0.86, 0.97];
const queries = (rows) => [
  ["a row by its key", KEYS.map((part) => `select * from title where id = ${Math.floor(rows * part)}`)],
  ["titles by name", KEYS.map((part) => `select name, year from title where name >= 'The ${"BEGHLRSW"[Math.floor(part * 8)]}' limit 5`)],
  ["the first 10,000 rows", ["select count(*), max(about) from (select about from title limit 10000)"]],
];

console.log("| | requests | bytes | time | memory |\n|---|--:|--:|--:|--:|");
for (const folder of folders) {
  const whole = statSync(join(folder, "titles.db")).size;
  for (const file of ["titles.db", "titles.packed", "titles.zst"]) {
    const url = `${server.url}/${basename(folder)}/${file}`;
    const own = statSync(join(folder, file)).size;
    let rows = 0;
    for (const [name, sqls] of [["", ["select max(id) from title"]], ...queries(1)]) {
      const found = [];
      const texts = name === "" ? sqls : queries(rows).find((query) => query[0] === name)[1];
      for (const sql of texts) {
        const tab = await browser.newPage();
        await tab.goto(`${server.url}/page.html`);
        const ask = (sql) => tab.evaluate((request) => window.ask(request), { url, sql });
        // The first answer of a worker has to wait until all is loaded.
        await tab.evaluate((request) => window.ask(request), { url: `${server.url}/none`, sql: [] });
        const one = await ask([sql]);
        if (one.error) throw new Error(one.error);
        found.push(one);
        await tab.close();
      }
      if (name === "") {
        rows = found[0].answers[0].rows[0][0];
        continue;
      }
      const of = (what) => median(found.map(what));
      console.log(
        `| ${name} of ${size(whole)}, ${file.replace("titles.db", "plain").replace("titles.zst", "archive").replace("titles.packed", "packed")} (${size(own)}) ` +
          `| ${of((one) => one.traffic.requests)} | ${size(of((one) => one.traffic.bytes))} ` +
          `| ${Math.round(of((one) => one.milliseconds))} ms | ${Math.max(...found.map((one) => one.memory)) >> 20} MB |`,
      );
    }
  }
}
await browser.close();
server.close();
process.exit(0);
