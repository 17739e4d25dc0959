// The VFS "litepack" of a SQLite in WebAssembly: databases that only the module can read, each under a name that was
// given to it. Nothing is written, and there are no other files.

export const VFS = "litepack";

/** Registers the VFS for the databases of a `Reader`. */
export function register(sqlite3, { module, opened }) {
  const { capi, wasm } = sqlite3;
  if (capi.sqlite3_vfs_find(VFS)) throw new Error("the VFS litepack is registered already");
  /** What SQLite has open, by its pointer. */
  const files = new Map();
  const ok = () => capi.SQLITE_OK;
  const readOnly = () => capi.SQLITE_READONLY;
  const tried = (file, action) => {
    try {
      return action();
    } catch (error) {
      if (file) file.error = error;
      return error.code ?? capi.SQLITE_IOERR;
    }
  };

  const io = new capi.sqlite3_io_methods();
  io.$iVersion = 1;
  const ioMethods = {
    xClose: (pFile) => (files.delete(pFile), capi.SQLITE_OK),
    xRead: (pFile, pTo, length, offset) => {
      const file = files.get(pFile);
      return tried(file, () => {
        // Memory may grow while the answer is awaited, so it is asked for where it is used.
        const page = new Uint8Array(length);
        const found = module.read(file.number, Number(offset), page);
        wasm.heap8u().set(page, Number(pTo));
        return found < length ? capi.SQLITE_IOERR_SHORT_READ : capi.SQLITE_OK;
      });
    },
    xFileSize: (pFile, pSize) => {
      const file = files.get(pFile);
      return tried(file, () => {
        wasm.poke64(pSize, BigInt(module.size(file.number)));
        return capi.SQLITE_OK;
      });
    },
    xWrite: readOnly,
    xTruncate: readOnly,
    xSync: ok,
    xLock: ok,
    xUnlock: ok,
    xCheckReservedLock: (pFile, pOut) => (wasm.poke32(pOut, 0), capi.SQLITE_OK),
    xFileControl: () => capi.SQLITE_NOTFOUND,
    xSectorSize: () => 4096,
    // The file never changes: no locks, and no journal or WAL beside it is looked for.
    xDeviceCharacteristics: () => capi.SQLITE_IOCAP_IMMUTABLE,
  };

  const usual = new capi.sqlite3_vfs(capi.sqlite3_vfs_find(null));
  const vfs = new capi.sqlite3_vfs();
  vfs.$iVersion = 2;
  vfs.$szOsFile = capi.sqlite3_file.structInfo.sizeof;
  vfs.$mxPathname = 1024;
  vfs.addOnDispose((vfs.$zName = wasm.allocCString(VFS)));
  for (const name of ["$xRandomness", "$xSleep", "$xCurrentTime", "$xCurrentTimeInt64"]) vfs[name] = usual[name];
  usual.dispose();
  const vfsMethods = {
    xOpen: (pVfs, zName, pFile, flags, pOutFlags) => {
      const file = zName ? opened.get(wasm.cstrToJs(zName)) : undefined;
      if (!file) return capi.SQLITE_CANTOPEN;
      const struct = new capi.sqlite3_file(pFile);
      struct.$pMethods = io.pointer;
      struct.dispose();
      files.set(pFile, file);
      if (pOutFlags) wasm.poke32(pOutFlags, capi.SQLITE_OPEN_READONLY);
      return capi.SQLITE_OK;
    },
    xAccess: (pVfs, zName, flags, pOut) => (wasm.poke32(pOut, 0), capi.SQLITE_OK),
    xDelete: () => capi.SQLITE_IOERR_DELETE,
    xFullPathname: (pVfs, zName, length, pOut) =>
      wasm.cstrncpy(pOut, zName, length) < length ? capi.SQLITE_OK : capi.SQLITE_CANTOPEN,
    xGetLastError: () => capi.SQLITE_OK,
  };
  sqlite3.vfs.installVfs({ io: { struct: io, methods: ioMethods }, vfs: { struct: vfs, methods: vfsMethods } });
}
