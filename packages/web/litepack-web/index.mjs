// Databases on a web server for a SQLite in WebAssembly, in a worker: packed files, archives and plain databases, read
// by range.

import { Module } from "./host.mjs";
import { VFS, register } from "./vfs.mjs";

/**
 * Makes the reader for a SQLite that was initialised by `@sqlite.org/sqlite-wasm`, once in a worker.
 */
export async function litepack(sqlite3, { wasm = new URL("litepack.wasm", import.meta.url), request } = {}) {
  if (!request && typeof XMLHttpRequest === "undefined") {
    throw new Error("litepack-web reads in a worker of a browser; elsewhere, give it `request`");
  }
  if (!request && typeof document !== "undefined") {
    throw new Error("litepack-web reads in a worker: a page may not wait for requests");
  }
  const module = await Module.load(wasm, request);
  const opened = new Map();
  register(sqlite3, module, opened);
  let count = 0;

  /** What the reader knows of an error, in the place of SQLite's few words. */
  function explained(entry, action) {
    entry.error = null;
    try {
      return action();
    } catch (error) {
      if (!entry.error) throw error;
      const better = new Error(entry.error.message, { cause: error });
      better.resultCode = error.resultCode;
      throw better;
    }
  }

  class Database extends sqlite3.oo1.DB {
    #entry;
    #name;

    constructor(name, entry) {
      super({ filename: name, flags: "r", vfs: VFS });
      this.#entry = entry;
      this.#name = name;
    }

    /** Where the file is, which version of it, and what reading took so far. */
    traffic() {
      return module.traffic(this.#entry.number);
    }

    exec(...what) {
      return this.#entry ? explained(this.#entry, () => super.exec(...what)) : super.exec(...what);
    }

    prepare(sql) {
      const entry = this.#entry;
      if (!entry) return super.prepare(sql);
      const statement = explained(entry, () => super.prepare(sql));
      const step = statement.step;
      statement.step = function () {
        return explained(entry, () => step.call(this));
      };
      return statement;
    }

    close() {
      super.close();
      if (opened.delete(this.#name)) module.close(this.#entry.number);
    }
  }

  return {
    /** Opens the database at a URL, with one request or two. */
    async open(url, { key } = {}) {
      const entry = { number: await module.open(new URL(url, globalThis.location?.href).href, key), error: null };
      const name = `/${(count += 1)}.db`;
      opened.set(name, entry);
      try {
        return explained(entry, () => new Database(name, entry));
      } catch (error) {
        opened.delete(name);
        module.close(entry.number);
        throw error;
      }
    },

    /** Bytes of memory that the reader has, beside SQLite's. */
    get memory() {
      return module.memory;
    },
  };
}
