import type { Options, Traffic } from "./options.d.mts";

export type { Answer, Options, Traffic } from "./options.d.mts";

/** What is called of wa-sqlite's API. */
export interface WaSqlite {
  vfs_register(vfs: any, makeDefault?: boolean): number;
  open_v2(name: string, flags?: number, vfs?: string): Promise<number>;
  exec(db: number, sql: string): Promise<number>;
  close(db: number): Promise<number>;
}

export interface Litepack {
  /** Opens the database at a URL, and gives wa-sqlite's number for it. */
  open(url: string | URL, options?: { key?: string }): Promise<number>;
  close(db: number): Promise<void>;
  traffic(db: number): Traffic;
  /** An error of wa-sqlite's with what the reader knows of it, in the place of SQLite's few words. */
  explained(db: number, error: Error): Error;
  /** Bytes of memory that the reader has, beside SQLite's. */
  readonly memory: number;
}

/** Makes the reader for wa-sqlite's API, which its `Factory` has made of its synchronous build; once in a worker. */
export function litepack(sqlite3: WaSqlite, options?: Options): Promise<Litepack>;
