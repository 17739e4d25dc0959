// The module and the databases that are open in it, by the names that a SQLite has for them.

import { Module, Reason, bySynchronousRequest } from "./host.mjs";

/** No timer takes more milliseconds. */
const LONGEST = 2 ** 31 - 1;

/** How long an answer may take, in milliseconds: 1 MB over a slow line. */
const TIMEOUT = 60_000;

export class Reader {
  /** By name: the number in the module, and the last Error, which a VFS puts there when a read fails. */
  opened = new Map();
  #count = 0;
  #look;

  /** `look` says of a URL whether it may be opened, by an Error. */
  constructor(module, look) {
    this.module = module;
    this.#look = look;
  }

  static async start({ wasm = new URL("litepack.wasm", import.meta.url), request, timeout = TIMEOUT, look } = {}) {
    if (!Number.isInteger(timeout) || timeout < 1 || timeout > LONGEST) {
      throw new RangeError(`\`timeout\` is a whole number of milliseconds from 1 to ${LONGEST}, and not ${timeout}`);
    }
    if (!request && typeof XMLHttpRequest === "undefined") {
      throw new Error(
        "there is no XMLHttpRequest here: `litepack-web` reads in workers of browsers and in Node, and " +
          "`litepack-web/wa-sqlite` in workers of browsers; elsewhere, give it `request`",
      );
    }
    if (!request && typeof document !== "undefined") {
      throw new Error("litepack-web reads in a worker: a page may not wait for requests");
    }
    return new Reader(await Module.load(wasm, request ?? bySynchronousRequest, timeout), look);
  }

  /** Opens the database at a URL, and gives the name for SQLite and what `opened` has under it. */
  async open(url, key) {
    const { href } = checked(url);
    this.#look?.(href);
    const number = await this.module.open(href, key);
    try {
      // Again: what was begun in between has left its first traces by now.
      this.#look?.(href);
    } catch (error) {
      this.module.close(number);
      throw error;
    }
    const [name, entry] = [`/${(this.#count += 1)}.db`, { number, error: null }];
    this.opened.set(name, entry);
    return { name, entry };
  }

  close(name) {
    const entry = this.opened.get(name);
    if (!this.opened.delete(name)) return;
    this.module.close(entry.number);
    // Others may have it still, and another database may get its number.
    entry.number = CLOSED;
  }
}

/** The number of no database. */
const CLOSED = -1;

/** An absolute URL that can be sent. What browsers say of others names the whole of it. */
function checked(url) {
  let whole;
  try {
    whole = new URL(url, globalThis.location?.href);
  } catch {
    throw Reason.final("this is no URL that can be opened");
  }
  if (whole.username || whole.password) {
    throw Reason.final(
      "a user and a password in a URL are not sent: open a URL without them, and if the file is not public, a signed one",
    );
  }
  return whole;
}

/**
 * What the reader knows of an error, in the place of SQLite's few words, if something of the entry could not be read
 * since that was last forgotten.
 */
export function explained(entry, error) {
  if (!entry.error) return error;
  const better = new Error(entry.error.message, { cause: error });
  better.resultCode = error.resultCode ?? error.code;
  return better;
}
