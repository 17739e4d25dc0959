// The thread that makes requests in Node: whose answer is whose, and how it starts.
//
// usage: node-requests.mjs WORK LITEPACK

import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { make } from "./data.mjs";
import { expect, inNode, same } from "./harness.mjs";

const [work, command] = process.argv.slice(2);
const data = join(work, "data");
make(data, command);
const thread = new Worker(new URL("apart.mjs", import.meta.url), { workerData: { data } });
const url = await new Promise((done) => thread.once("message", done));
const control = async (name) => (await fetch(`${url}/control/${name}`)).json();
const { test, end } = inNode();

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const START = `
  import init from "@sqlite.org/sqlite-wasm";
  import { litepack } from "litepack-web";
  const sqlite3 = await init();`;
const node = (program, cwd = work) => ["node", ["--input-type=module", "-e", START + program], { cwd, timeout: 40_000 }];

await test("a process that was stopped while it waited takes no answer for another", async () => {
  await control("slow");
  const files = ["titles.packed", "wal.packed", "titles.db", "wal.zst", "titles.zst"];
  const child = spawn(...node(`
    const reader = await litepack(sqlite3, { timeout: 1000 });
    for (const file of ${JSON.stringify(files)}) {
      const db = await reader.open(\`${url}/data/\${file}\`);
      console.log(file, db.selectValue("select count(*) from title"));
    }`));
  let said = "";
  for (const from of [child.stdout, child.stderr]) from.on("data", (text) => (said += text));
  const ended = new Promise((done) => child.on("exit", done));
  while ((await control("requests")) === 0) await pause(20);
  child.kill("SIGSTOP");
  // Longer than its thread may take to say that there is no answer.
  await pause(6500);
  child.kill("SIGCONT");
  await ended;
  await control("fast");
  same(said, files.map((file) => `${file} ${file.startsWith("wal") ? 1000 : 200000}\n`).join(""));
});

await test("it starts in a program that is given as text", async () => {
  const program = `
    const db = await (await litepack(sqlite3)).open("${url}/data/wal.packed");
    console.log(db.selectValue("select count(*) from title"));`;
  const { stdout, stderr, status } = spawnSync(...node(program));
  expect(status === 0 && stdout.toString() === "1000\n", `${status} ${stdout} ${stderr}`);
});

await test("it starts with the first request of a server, once", async () => {
  const program = `
    import { readdirSync } from "node:fs";
    const threads = () => readdirSync("/proc/self/task").length;
    const before = threads();
    const reader = await litepack(sqlite3);
    await litepack(sqlite3).catch((error) => console.log(error.message));
    (await reader.open("file://${data}/wal.packed")).close();
    console.log(threads() - before);
    (await reader.open("${url}/data/wal.packed")).close();
    (await reader.open("${url}/data/titles.packed")).close();
    const one = threads() - before;
    (await (await litepack(await init())).open("${url}/data/titles.packed")).close();
    console.log(one > 0, threads() - before - one);`;
  const { stdout, stderr } = spawnSync(...node(program));
  same(stdout.toString(), "the VFS litepack is registered already\n0\ntrue 0\n");
  same(stderr.toString(), "");
});

await test("if it does not start, that is an error, and the process goes on", async () => {
  const broken = join(work, "broken");
  rmSync(broken, { recursive: true, force: true });
  mkdirSync(join(broken, "node_modules"), { recursive: true });
  symlinkSync(join(work, "node_modules/@sqlite.org"), join(broken, "node_modules/@sqlite.org"));
  cpSync(join(work, "package"), join(broken, "node_modules/litepack-web"), { recursive: true });
  rmSync(join(broken, "node_modules/litepack-web/node-thread.mjs"));
  const program = `
    const reader = await litepack(sqlite3);
    await reader.open("${url}/data/wal.packed").catch((error) => console.log(error.message));
    await new Promise((done) => setTimeout(done, 500));
    const db = await reader.open("file://${data}/wal.packed");
    console.log(db.selectValue("select count(*) from title"));`;
  const { stdout, stderr, status } = spawnSync(...node(program, broken));
  expect(status === 0 && stdout.toString() === "the thread for requests does not start\n1000\n", `${status} ${stdout} ${stderr}`);
});

end();
