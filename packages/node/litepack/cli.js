#!/usr/bin/env node
// The command `litepack` of the package for this platform.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");
const { getCommandPath } = require("./index.js");

let command;
try {
  command = getCommandPath();
} catch (error) {
  console.error(error.message);
  process.exit(2);
}
const child = spawn(command, process.argv.slice(2), { stdio: "inherit" });
// A terminal's signals reach the command by themselves, and it ends as it wants to.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => child.kill("SIGTERM"));
child.on("error", (error) => {
  console.error(`litepack: ${error.message}`);
  process.exit(2);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + os.constants.signals[signal]));
