#!/usr/bin/env node
// Starts the program of this platform, which an optional dependency of this package holds.
"use strict";

const { spawn } = require("node:child_process");

const name = `@looptree/${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "looptree.exe" : "looptree";

let program;
try {
  program = require.resolve(`${name}/bin/${file}`);
} catch {
  console.error(
    `error: the package ${name} is not installed. It is an optional dependency of looptree: install without --omit=optional, ` +
      "or with cargo: cargo install --locked looptree-cli",
  );
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });

// The terminal sends Ctrl-C to both processes, and the program decides. Other signals arrive here only.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}

child.on("error", (error) => {
  console.error(`error: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
