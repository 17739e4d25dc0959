// A registry of npm packages with the archives in a folder, on a port of this machine: so that `npm install litepack`
// is tried as users type it. Prints its URL, and runs until it is ended.
//
// usage: node registry.mjs FOLDER
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const folder = process.argv[2];
const archives = readdirSync(folder).filter((name) => /^litepack.*\.tgz$/.test(name));

function document(name, url) {
  const versions = {};
  for (const archive of archives) {
    const packed = execFileSync("tar", ["-xzOf", join(folder, archive), "package/package.json"]);
    const manifest = JSON.parse(packed);
    if (manifest.name !== name) continue;
    const integrity = "sha512-" + createHash("sha512").update(readFileSync(join(folder, archive))).digest("base64");
    versions[manifest.version] = { ...manifest, dist: { tarball: `${url}/files/${archive}`, integrity } };
  }
  const latest = Object.keys(versions).at(-1);
  return latest && { name, "dist-tags": { latest }, versions };
}

const server = createServer((request, response) => {
  const url = `http://${request.headers.host}`;
  const [, first, file] = request.url.split("/");
  if (first === "files" && archives.includes(file)) return response.end(readFileSync(join(folder, file)));
  const found = document(decodeURIComponent(first), url);
  response.writeHead(found ? 200 : 404, { "content-type": "application/json" });
  response.end(JSON.stringify(found ?? { error: "not found" }));
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
