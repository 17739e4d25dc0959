// The data of the tests: 200,000 titles plain, packed, as an archive, encrypted, and in WAL mode; and what Python's
// SQLite answers.

import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const ROWS = 200_000;
export const KEY = "correct horse";
export const RAW = "3b".repeat(16) + "c7".repeat(16);

export const SQL = [
  "select name, year from title where id = 123456",
  "select count(*), sum(year), sum(length(about)) from title",
  "select count(*) from title where year = 1999",
  "select name from title order by name desc limit 3",
];

/** Every kind of file: its name, its key. */
export const FILES = [
  ["plain", "titles.db"], ["packed", "titles.packed"], ["archive", "titles.zst"],
  ["packed", "titles.locked", KEY], ["archive", "titles.locked.zst", KEY],
];

/** Makes them in a folder, once for each version of this file, by the command `litepack`. */
export function make(data, command) {
  const made = readFileSync(fileURLToPath(import.meta.url));
  if (existsSync(join(data, "done")) && made.equals(readFileSync(join(data, "done")))) return;
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
  run(command, "archive", "create", "wal.db", "wal.zst");
  writeFileSync(join(data, "rawkey"), `raw:${RAW}`);
  run(command, "pack", "--encrypt", "--key-file", "rawkey", "titles.db", "raw.locked");
  copyFileSync(join(data, "titles.packed"), join(data, "short.packed"));
  truncateSync(join(data, "short.packed"), statSync(join(data, "short.packed")).size - 100_000);
  writeFileSync(join(data, "text.db"), "this is no database\n".repeat(1000));
  writeFileSync(join(data, "empty.db"), "");
  writeFileSync(join(data, "done"), made);
}

/** What SQL answers on the plain file. */
export const answersIn = (data) =>
  JSON.parse(
    execFileSync("python3", [
      "-c",
      "import json, sqlite3, sys; db = sqlite3.connect(sys.argv[1]); print(json.dumps([db.execute(sql).fetchall() for sql in sys.argv[2:]]))",
      join(data, "titles.db"),
      ...SQL,
    ]).toString(),
  );
