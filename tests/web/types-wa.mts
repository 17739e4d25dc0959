import { litepack, type Answer, type Options, type WaSqlite } from "litepack-web/wa-sqlite";

// An answer of another status than 206 needs no body.
const request = (): Answer => ({ status: 404, headers: "" });
const options: Options = { timeout: 1000, request };
declare const sqlite3: WaSqlite;
const reader = await litepack(sqlite3, options);
console.log(reader.traffic(await reader.open("https://data.example/app.packed")).bytes);
// @ts-expect-error: it is a number
const wrong: Options = { timeout: "1000" };
