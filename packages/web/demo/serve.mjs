// Serves the demo page.
//
// usage: serve.mjs WORK    a folder with `data`, `package` and `node_modules`

import { statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "./server.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const work = process.argv[2];
const file = "/data/titles.packed";
const page = Object.fromEntries(
  ["index.html", "demo.css", "demo.mjs", "worker.mjs"].map((name) => [name, join(here, name)]),
);
const server = await serve(
  { ...page, data: join(work, "demo"), package: join(work, "package"), modules: join(work, "node_modules") },
  {
    delay: 50,
    control: {
      state: () => ({
        requests: server.requests.length,
        bytes: server.requests.reduce((sum, { sent }) => sum + sent, 0),
        plain: statSync(join(work, "demo/titles.db")).size,
        packed,
        delay: server.delay,
      }),
      // Of the ranges that the last query asked for: it needs something in each.
      flip: () => {
        const of = server.requests.slice(server.requests.findLastIndex(({ start }) => start === 0));
        const { start, sent } = of[Math.floor(Math.random() * of.length)];
        const offset = start + Math.floor(Math.random() * sent);
        server.flips.set(file, [offset]);
        return { offset };
      },
      mend: () => {
        server.flips.clear();
        return {};
      },
    },
  },
);
const packed = statSync(join(work, "demo/titles.packed")).size;
console.log(`${server.url}/index.html (Ctrl-C ends it)`);
