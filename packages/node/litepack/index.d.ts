/** Which name of the extension is meant. */
export interface Which {
  /** The one with which Litepack becomes the default VFS, so that packed files open by their names. */
  default?: boolean;
  /**
   * The one after which SQL on that connection may set what holds for the process, by `litepack_remote_headers()`,
   * `litepack_remote_config()` and `litepack_new_databases()`. For a connection of your own, to ":memory:".
   */
  configure?: boolean;
}

/** What `register` does besides. */
export interface Options {
  /** What databases become that do not exist yet. Without it they are plain, as ever. */
  newDatabases?: "packed" | "plain";
}

/** A connection of better-sqlite3, libsql, node:sqlite or Bun. */
export interface Connection {
  loadExtension(file: string): unknown;
  prepare(sql: string): { get(): unknown };
}

/** A connection of node-sqlite3. */
export interface CallbackConnection {
  loadExtension(file: string, callback?: (error: Error | null) => void): unknown;
  exec(sql: string, callback?: (error: Error | null) => void): unknown;
  parallelize(callback?: () => void): void;
}

/**
 * From now on this driver opens packed files by their names, anywhere in the process. Plain ones stay plain.
 *
 * Takes the class of connections: `Database` of better-sqlite3, libsql or bun:sqlite, `DatabaseSync` of node:sqlite, or
 * `Database` of node-sqlite3. For the last one it returns a promise.
 */
export function register(
  Database: new (file: string, callback?: (error: Error | null) => void) => CallbackConnection,
  options?: Options,
): Promise<void>;
export function register(
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  Database: new (file: string, options?: any) => Connection & { close(): unknown },
  options?: Options,
): void;

/**
 * Loads the extension by a connection that may load extensions, for databases that are opened later by
 * `file:app.db?vfs=litepack`. Any connection will do: one that is open was opened without Litepack.
 */
export function load(db: CallbackConnection, which?: Which): Promise<void>;
export function load(db: Connection, which?: Which): void;

/**
 * Gives a connection that was just opened the key of its database: a passphrase, or 32 bytes. A database that does not
 * exist yet is encrypted with it. A wrong key, or one for a database that is not encrypted, is an error.
 */
export function giveKey(db: CallbackConnection, key: string | Uint8Array): Promise<void>;
export function giveKey(db: Connection, key: string | Uint8Array): void;

/** The extension, for whatever loads it by itself. */
export function getLoadablePath(which?: Which): string;

/** The command `litepack`, which `npx litepack` runs. */
export function getCommandPath(): string;
