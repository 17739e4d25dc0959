// The package on another platform than this one, as far as it can be told: it asks for files that are in the package for
// that platform, and no other package was installed.
//
// usage: node platform.mjs PLATFORM    as packages with binaries are called
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";

const platform = process.argv[2];
const [system, processor, libc] = platform.split("-");
const pretend = (object, name, value) => Object.defineProperty(object, name, { value, configurable: true });
pretend(process, "platform", system);
pretend(process, "arch", processor);
pretend(process, "report", { getReport: () => ({ header: libc ? {} : { glibcVersionRuntime: "2.36" } }) });

const installed = readdirSync("node_modules").filter((name) => name.startsWith("litepack"));
assert.deepEqual(installed, ["litepack", `litepack-${platform}`]);
const { getCommandPath, getLoadablePath } = createRequire(join(process.cwd(), "app.js"))("litepack");
const asked = [getLoadablePath(), getLoadablePath({ default: true }), getLoadablePath({ configure: true }), getCommandPath()];
for (const file of asked) assert(existsSync(file), file);
const there = readdirSync(join("node_modules", `litepack-${platform}`)).filter((name) => /^(lib)?litepack/.test(name));
assert.deepEqual(asked.map((file) => basename(file)).sort(), there.sort());
console.log(`ok the packages for ${platform}`);
