import type { Database as SqliteDatabase, Sqlite3Static } from "@sqlite.org/sqlite-wasm";

/** What reading a database took so far. */
export interface Traffic {
  /** Where it is, without secrets. */
  url: string;
  /** Bytes of the file. */
  size: number;
  /** Its ETag, or its date of change. */
  validator: string;
  kind: "plain" | "packed" | "archive" | "other";
  /** Requests that were sent. */
  requests: number;
  /** Bytes of the file that came. */
  bytes: number;
  /** Blocks that were here when they were asked for. */
  hits: number;
  /** Requests that were sent again after a failure. */
  retries: number;
}

/** SQLite's own object, with one method more. What fails says why, in `message`. */
export interface Database extends SqliteDatabase {
  traffic(): Traffic;
}

export interface Answer {
  /** The HTTP status. */
  status: number;
  /** `Name: value` in each line. */
  headers: string;
  body: ArrayBuffer;
}

export interface Options {
  /** The module: its URL, its bytes, or what was compiled of it. Beside `index.mjs`, unless something else is said. */
  wasm?: URL | string | ArrayBuffer | ArrayBufferView | WebAssembly.Module;
  /**
   * Asks for the bytes `start` to `end` (exclusive) and waits, where there is no XMLHttpRequest. An answer of another
   * status than 206 needs no body.
   */
  request?: (url: string, start: number, end: number, timeout: number) => Answer;
  /** Milliseconds that an answer may take, 60,000 unless something else is said. It is tried three times. */
  timeout?: number;
}

export interface Litepack {
  /** Opens the database at a URL. `key` is a passphrase, or `raw:` and 64 hexadecimal digits. */
  open(url: string | URL, options?: { key?: string }): Promise<Database>;
  /** Bytes of memory that the reader has, beside SQLite's. */
  readonly memory: number;
}

/** Makes the reader for a SQLite that was initialised, once in a worker. */
export function litepack(sqlite3: Sqlite3Static, options?: Options): Promise<Litepack>;
