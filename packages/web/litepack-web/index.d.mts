import type { Database as SqliteDatabase, Sqlite3Static } from "@sqlite.org/sqlite-wasm";
import type { Options, Traffic } from "./options.d.mts";

export type { Answer, Options, Traffic } from "./options.d.mts";

/** SQLite's own object, with one method more. What fails says why, in `message`. */
export interface Database extends SqliteDatabase {
  traffic(): Traffic;
}

export interface Litepack {
  /** Opens the database at a URL. `key` is a passphrase, or `raw:` and 64 hexadecimal digits. */
  open(url: string | URL, options?: { key?: string }): Promise<Database>;
  /** Bytes of memory that the reader has, beside SQLite's. */
  readonly memory: number;
}

/** Makes the reader for a SQLite that was initialised, once in a worker. */
export function litepack(sqlite3: Sqlite3Static, options?: Options): Promise<Litepack>;
