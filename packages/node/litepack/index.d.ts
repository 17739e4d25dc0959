/** What to do besides loading. */
export interface Options {
  /** Whether databases that do not exist yet become packed files. Without it they are plain, as ever. */
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
 * Loads Litepack into the SQLite of this driver: databases that are opened from now on, anywhere in the process, may be
 * packed files. Plain ones stay plain.
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
 * The same with a connection that may load extensions. The connection itself is of no use for packed files: SQLite
 * decides how to read a database when it opens it.
 */
export function load(db: CallbackConnection, options?: Options): Promise<void>;
export function load(db: Connection, options?: Options): void;

/** The extension: adds the VFS `litepack`, for `file:app.db?vfs=litepack`. The entry point is `sqlite3_litepack_init`. */
export function getLoadablePath(): string;

/** The extension by another name, with which it becomes the default VFS, so that packed files open by their names. */
export function getDefaultLoadablePath(): string;

/** The command `litepack`, which `npx litepack` runs. */
export function getCommandPath(): string;
