// What tests in Chromium have in common: a page with a worker, servers, and how a test fails.

import { dirname, join } from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { serve } from "../../packages/web/demo/server.mjs";
import { SQL, answersIn, make } from "./data.mjs";

const here = dirname(fileURLToPath(import.meta.url));

export function expect(condition, what) {
  if (!condition) throw new Error(typeof what === "string" ? what : JSON.stringify(what));
}

export function same(found, expected) {
  expect(JSON.stringify(found) === JSON.stringify(expected), `${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
}

/** Tests in Node, and their end. */
export function inNode() {
  let failed = 0;
  async function test(name, body) {
    if (process.env.ONLY && !name.includes(process.env.ONLY)) return;
    try {
      await body();
      console.log(`ok Node: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED Node: ${name}: ${error.message}`);
    }
  }
  function end() {
    console.log(failed ? `${failed} failed` : "all passed in Node");
    process.exit(failed ? 1 : 0);
  }
  return { test, end };
}

/** What a promise fails with. */
export const failure = (promise) => promise.then(() => new Error("none"), (error) => error);

/** Starts a Chromium. */
export async function chromium(work) {
  const require = createRequire(join(work, "package.json"));
  const puppeteer = (await import(pathToFileURL(require.resolve("puppeteer-core")))).default;
  return puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
}

/** What a page for tests needs of a server. */
export const served = (work) => ({
  package: join(work, "package"), modules: join(work, "node_modules"),
  ...Object.fromEntries(["worker.mjs", "worker-wa.mjs", "page.html"].map((name) => [name, join(here, name)])),
});

/** Servers, a browser and data for tests; `page` is the server of the pages, the others are of other origins. */
export async function start(work, command) {
  const data = join(work, "data");
  make(data, command);
  const folders = { ...served(work), data };
  const page = await serve(folders);
  const elsewhere = await serve(folders, { other: true });
  const silent = await serve(folders);
  const browser = await chromium(work);
  let failed = 0;

  /** A test on a page of its own, with a worker. `ask` sends a request to it; `on` are settings of the page. */
  async function test(name, body, on = "") {
    if (process.env.ONLY && !name.includes(process.env.ONLY)) return;
    const tab = await browser.newPage();
    const said = [];
    tab.on("console", (message) => said.push(message.text()));
    tab.on("pageerror", (error) => said.push(error.message));
    try {
      await tab.goto(`${page.url}/page.html${on}`);
      const ask = (request) => tab.evaluate((request) => window.ask(request), { sql: [], ...request });
      await body(ask, tab);
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

  /** Opening and queries of `path` on `server` fail, with these words in the error. */
  const fails = (name, server, path, words, { on, ...more } = {}) =>
    test(`${name} is an error that says so`, async (ask) => {
      const found = await ask({ url: `${server.url}/${path}`, sql: SQL, ...more });
      for (const word of [words].flat()) expect(found.error?.includes(word), found);
    }, on);

  async function end() {
    await browser.close();
    for (const server of [page, elsewhere, silent]) server.close();
    console.log(failed ? `${failed} failed` : "all passed");
    process.exit(failed ? 1 : 0);
  }

  return { data, page, elsewhere, silent, test, fails, end, native: answersIn(data) };
}
