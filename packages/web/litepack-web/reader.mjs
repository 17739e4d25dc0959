// The module and the databases that are open in it, by the names that a SQLite has for them.

import { Module, bySynchronousRequest } from "./host.mjs";

/** How long an answer may take, in milliseconds: 1 MB over a slow line. */
const TIMEOUT = 60_000;

export class Reader {
  /** By name: the number in the module, and the last Error, which a VFS puts there when a read fails. */
  opened = new Map();
  #count = 0;

  constructor(module) {
    this.module = module;
  }

  static async start({ wasm = new URL("litepack.wasm", import.meta.url), request, timeout = TIMEOUT } = {}) {
    if (!request && typeof XMLHttpRequest === "undefined") {
      throw new Error("litepack-web reads in a worker of a browser or in Node; elsewhere, give it `request`");
    }
    if (!request && typeof document !== "undefined") {
      throw new Error("litepack-web reads in a worker: a page may not wait for requests");
    }
    return new Reader(await Module.load(wasm, request ?? bySynchronousRequest, timeout));
  }

  /** Opens the database at a URL, and gives the name for SQLite and what `opened` has under it. */
  async open(url, key) {
    const number = await this.module.open(new URL(url, globalThis.location?.href).href, key);
    const [name, entry] = [`/${(this.#count += 1)}.db`, { number, error: null }];
    this.opened.set(name, entry);
    return { name, entry };
  }

  close(name) {
    const entry = this.opened.get(name);
    if (this.opened.delete(name)) this.module.close(entry.number);
  }
}

/** What the reader knows of an error, in the place of SQLite's few words. */
export function explained(entry, error) {
  if (!entry.error) return error;
  const better = new Error(entry.error.message, { cause: error });
  better.resultCode = error.resultCode ?? error.code;
  return better;
}
