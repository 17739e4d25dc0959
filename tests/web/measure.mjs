// What queries take in Chromium, with answers that come 50 ms late, as a table; beside sql.js-httpvfs, if it is installed.
// A new worker for each, whose SQLite is loaded when the time begins: with the first request for the database.
//
// usage: measure.mjs WORK FOLDER...    folders with titles.db, titles.packed and titles.zst; titles1k.db is titles.db
//                                      with the pages of 1024 bytes that sql.js-httpvfs recommends.
// The table in docs/browser.md has `npm install sql.js-httpvfs@0.8.12` in WORK, and 42,000, 985,000, 4,170,000 and
// 5,400,000 rows of packages/web/demo/titles.py.

import { existsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "../../packages/web/demo/server.mjs";
import { chromium, served } from "./harness.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const [work, ...folders] = process.argv.slice(2).map((path) => resolve(path));
const pages = { ...served(work), "page-httpvfs.html": join(here, "page-httpvfs.html") };
const server = await serve({ ...pages, ...Object.fromEntries(folders.map((path) => [basename(path), path])) }, { delay: 50 });
const browser = await chromium(work);

const size = (bytes) => {
  const [unit, by] = [["kB", 1e3], ["MB", 1e6], ["GB", 1e9]].findLast(([, by]) => bytes >= by) ?? ["kB", 1e3];
  return `${(bytes / by).toFixed(bytes / by < 10 && by > 1e3 ? (by === 1e9 ? 2 : 1) : 0)} ${unit}`;
};
const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];
const PARTS = [0.11, 0.37, 0.58, 0.71, 0.97];
const scan = "select count(*), max(about) from (select about from title limit 10000)";
const QUERIES = [
  ["a row by its key", (part, rows) => `select * from title where id = ${Math.floor(rows * part)}`],
  ["five titles by name", (part) => `select name, year from title where name >= 'The ${"BEGHLRSW"[Math.floor(part * 8)]}' limit 5`],
  ["the first 10,000 rows", () => scan],
];
const KINDS = [
  ["packed", "titles.packed"], ["archive", "titles.zst"], ["plain", "titles.db"],
  ["plain, by sql.js-httpvfs", "titles.db", 4096], ["plain in pages of 1 kB, by sql.js-httpvfs", "titles1k.db", 1024],
];

/** Requests, bytes, milliseconds and the reader's memory of one query by a new worker. */
async function take(path, sql, page) {
  const tab = await browser.newPage();
  try {
    await tab.goto(`${server.url}/${page ? "page-httpvfs" : "page"}.html`);
    const ask = (path, sql) => tab.evaluate((request) => window.ask(request), { url: `${server.url}/${path}`, sql, page });
    if (!page) await ask("none", []);
    server.requests.length = 0;
    const found = await ask(path, [sql]);
    const end = found.end ?? Date.now();
    if (found.error) throw new Error(found.error);
    const asked = server.requests.filter((request) => request.path === `/${path}`);
    const bytes = asked.reduce((sum, { sent }) => sum + sent, 0);
    return { rows: found.answers[0].rows, requests: asked.length, bytes, time: found.milliseconds ?? end - asked[0].at, memory: found.memory ?? 0 };
  } finally {
    await tab.close();
  }
}

const table = new Map();
const add = (row, cell) => table.set(row, [...(table.get(row) ?? []), cell]);
let memory = 0;
for (const folder of folders) {
  const name = basename(folder);
  const [[rows]] = (await take(`${name}/titles.packed`, "select max(id) from title")).rows;
  for (const [kind, file, page] of KINDS) {
    if (!existsSync(join(folder, file)) || (page && !existsSync(join(work, "node_modules/sql.js-httpvfs")))) continue;
    if (!page) add(`| size | ${kind} |`, size(statSync(join(folder, file)).size));
    for (const [query, sql] of QUERIES) {
      const found = [];
      for (const part of PARTS) found.push(await take(`${name}/${file}`, sql(part, rows), page));
      const of = (what) => median(found.map((one) => one[what]));
      memory = Math.max(memory, ...found.map((one) => one.memory));
      add(`| ${query} | ${kind} |`, `${of("requests")} · ${size(of("bytes"))} · ${Math.round(of("time"))} ms`);
    }
  }
}
const sizes = table.get("| size | packed |").map((_, n) => size(statSync(join(folders[n], "titles.db")).size));
console.log(`| requests, bytes, time | | ${sizes.join(" | ")} |\n|---|---|${"--:|".repeat(sizes.length)}`);
for (const query of ["size", ...QUERIES.map(([name]) => name)]) {
  for (const [row, cells] of table) if (row.startsWith(`| ${query} |`)) console.log(`${row} ${cells.join(" | ")} |`);
}
console.log(`\nthe reader's memory: ${memory >> 20} MB at most`);
await browser.close();
server.close();
process.exit(0);
