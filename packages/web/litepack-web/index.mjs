// Databases on a web server for a SQLite in WebAssembly, in a worker: packed files, archives and plain databases, read
// by range.

import { Reader, explained } from "./reader.mjs";
import { VFS, register } from "./vfs.mjs";

/**
 * Makes the reader for a SQLite that was initialised by `@sqlite.org/sqlite-wasm`, once in a worker.
 */
export async function litepack(sqlite3, options) {
  const reader = await Reader.start(options);
  register(sqlite3, reader);

  /** Does something with a database, and says what the reader knows if that fails. */
  function tried(entry, action) {
    entry.error = null;
    try {
      return action();
    } catch (error) {
      throw explained(entry, error);
    }
  }

  class Database extends sqlite3.oo1.DB {
    #entry;
    #name;

    constructor({ name, entry }) {
      super({ filename: name, flags: "r", vfs: VFS });
      this.#entry = entry;
      this.#name = name;
    }

    /** Where the file is, which version of it, and what reading took so far. */
    traffic() {
      return reader.module.traffic(this.#entry.number);
    }

    exec(...what) {
      return this.#entry ? tried(this.#entry, () => super.exec(...what)) : super.exec(...what);
    }

    prepare(sql) {
      const entry = this.#entry;
      if (!entry) return super.prepare(sql);
      const statement = tried(entry, () => super.prepare(sql));
      const step = statement.step;
      statement.step = function () {
        return tried(entry, () => step.call(this));
      };
      return statement;
    }

    close() {
      super.close();
      reader.close(this.#name);
    }
  }

  return {
    /** Opens the database at a URL, with one request or two. */
    async open(url, { key } = {}) {
      const file = await reader.open(url, key);
      try {
        return tried(file.entry, () => new Database(file));
      } catch (error) {
        reader.close(file.name);
        throw error;
      }
    },

    /** Bytes of memory that the reader has, beside SQLite's. */
    get memory() {
      return reader.module.memory;
    },
  };
}
