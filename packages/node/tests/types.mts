// TypeScript has to accept the code of users, and to refuse code that is wrong. Never run.
import Database from "better-sqlite3";
import { DatabaseSync } from "node:sqlite";
import sqlite3 from "sqlite3";
import Libsql from "libsql";
import { getLoadablePath, giveKey, load, register } from "litepack";

const path: string = getLoadablePath();
register(Database);
register(Database, { newDatabases: "packed" });
register(DatabaseSync, { newDatabases: "plain" });
register(Libsql);
const registered: Promise<void> = register(sqlite3.Database);
const nothing: void = load(new Database(path));
await load(new DatabaseSync(":memory:"));
const loaded: Promise<void> = load(new sqlite3.Database(":memory:"));

// @ts-expect-error: not a value of this option
register(Database, { newDatabases: "small" });
// @ts-expect-error: not a class of connections
register(Map);
giveKey(new Database(path), "passphrase");
giveKey(new DatabaseSync(path), new Uint8Array(32));
const given: Promise<void> = giveKey(new sqlite3.Database(path), "passphrase");
// @ts-expect-error: not a connection
load(new Map());
// @ts-expect-error: not a key
giveKey(new Database(path), 7);

export { registered, nothing, loaded, given };
