// The same databases for wa-sqlite, whose VFS is an object with methods. Its synchronous build, in a worker.

import { Reader, explained } from "./reader.mjs";

export const VFS = "litepack";
const OPEN_READONLY = 1;
const OK = 0, IOERR = 10, READONLY = 8, NOTFOUND = 12, CANTOPEN = 14;
/** What SQLite says if something could not be read, in the lower bits: it is damaged, or no database, and so on. */
const UNREAD = [IOERR, 11, CANTOPEN, 26];
const IOERR_SHORT_READ = 522, IOERR_DELETE = 2570, IOCAP_IMMUTABLE = 0x2000;

/** The VFS: what wa-sqlite's class Base has, for databases that only the module can read. */
function vfs({ module, opened }) {
  /** What SQLite has open, by its number. */
  const files = new Map();
  const tried = (id, action) => {
    try {
      const code = action(files.get(id));
      // What has passed explains nothing any more.
      files.get(id).error = null;
      return code;
    } catch (error) {
      if (files.has(id)) files.get(id).error = error;
      return error.code ?? IOERR;
    }
  };
  return {
    name: VFS,
    mxPathName: 64,
    xOpen(name, id, flags, out) {
      if (!opened.has(name)) return CANTOPEN;
      files.set(id, opened.get(name));
      out.setInt32(0, OPEN_READONLY, true);
      return OK;
    },
    xClose: (id) => (files.delete(id), OK),
    xRead: (id, to, offset) =>
      tried(id, ({ number }) => {
        const found = module.read(number, offset, to);
        to.fill(0, found);
        return found < to.length ? IOERR_SHORT_READ : OK;
      }),
    xFileSize: (id, out) =>
      tried(id, ({ number }) => {
        out.setBigInt64(0, BigInt(module.size(number)), true);
        return OK;
      }),
    xAccess: (name, flags, out) => (out.setInt32(0, 0, true), OK),
    xCheckReservedLock: (id, out) => (out.setInt32(0, 0, true), OK),
    xWrite: () => READONLY,
    xTruncate: () => READONLY,
    xDelete: () => IOERR_DELETE,
    xSync: () => OK,
    xLock: () => OK,
    xUnlock: () => OK,
    xFileControl: () => NOTFOUND,
    xSectorSize: () => 4096,
    // The file never changes: no locks, and no journal or WAL beside it is looked for.
    xDeviceCharacteristics: () => IOCAP_IMMUTABLE,
  };
}

/** Makes the reader for wa-sqlite's API, which its `Factory` has made of its synchronous build; once in a worker. */
export async function litepack(sqlite3, options) {
  const reader = await Reader.start(options);
  sqlite3.vfs_register(vfs(reader), false);
  /** By wa-sqlite's number. */
  const files = new Map();

  return {
    /** Opens the database at a URL, and gives wa-sqlite's number for it. */
    async open(url, { key } = {}) {
      const file = await reader.open(url, key);
      let db;
      try {
        db = await sqlite3.open_v2(file.name, OPEN_READONLY, VFS);
        // There are no other files in this VFS, and wa-sqlite's SQLite would sort in one.
        await sqlite3.exec(db, "pragma temp_store = memory");
        files.set(db, file);
        return db;
      } catch (error) {
        if (db !== undefined) await sqlite3.close(db);
        reader.close(file.name);
        throw explained(file.entry, error);
      }
    },

    async close(db) {
      await sqlite3.close(db);
      if (files.has(db)) reader.close(files.get(db).name);
      files.delete(db);
    },

    /** Where the file is, which version of it, and what reading took so far. */
    traffic: (db) => reader.module.traffic(files.get(db)?.entry.number ?? -1),

    /** An error of wa-sqlite's with what the reader knows of it, in the place of SQLite's few words. */
    explained: (db, error) =>
      files.has(db) && UNREAD.includes(error.code & 0xff) ? explained(files.get(db).entry, error) : error,

    /** Bytes of memory that the reader has, beside SQLite's. */
    get memory() {
      return reader.module.memory;
    },
  };
}
