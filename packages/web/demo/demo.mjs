// The demo page: a query box, what the query took, its answer or why there is none, and a byte to flip.

const URL_OF_DATA = new URL("/data/titles.packed", location.href).href;
const EXAMPLES = [
  ["One row by its key", "select * from title where id = 123456"],
  ["Titles of a name", "select name, year from title\nwhere name >= 'The Silver Train' and name < 'The Silver Traio'\nlimit 20"],
  ["How many in each year", "select year, count(*) from title\nwhere year between 1990 and 1999 group by year"],
  ["Best of the first 10,000", "select name, about ->> 'rating' as rating\nfrom (select * from title limit 10000)\norder by 2 desc limit 10"],
];

const at = (id) => document.getElementById(id);
const worker = new Worker("worker.mjs", { type: "module" });
const ask = (request) =>
  new Promise((done) => {
    worker.onmessage = ({ data }) => done(data);
    worker.postMessage(request);
  });
const size = (bytes) => {
  const [unit, by] = [["kB", 1e3], ["MB", 1e6], ["GB", 1e9]].findLast(([, by]) => bytes >= by) ?? ["kB", 1e3];
  return `${(bytes / by).toPrecision(3)} ${unit}`;
};
/** Bytes that are flipped, one after another, until the query needs one. */
const FLIPS = 30;

function show({ columns = [], rows = [] }) {
  const table = document.createElement("table");
  const line = (cells, kind) => {
    const row = table.insertRow();
    for (const cell of cells) {
      const box = document.createElement(kind);
      box.textContent = cell === null ? "NULL" : String(cell);
      row.append(box);
    }
  };
  line(columns, "th");
  for (const row of rows) line(row, "td");
  at("answer").replaceChildren(...(columns.length ? [table] : []));
}

/** Runs the query, and says whether it failed. */
async function run() {
  at("time").textContent = "…";
  const before = await (await fetch("/control/state")).json();
  const found = await ask({ url: URL_OF_DATA, sql: at("sql").value });
  const after = await (await fetch("/control/state")).json();
  at("requests").textContent = after.requests - before.requests;
  at("bytes").textContent = size(after.bytes - before.bytes);
  at("time").textContent = `${Math.round(found.milliseconds)} ms`;
  at("error").hidden = !found.error;
  at("error").textContent = found.error ?? "";
  show(found);
  at("flip").disabled = false;
  return Boolean(found.error);
}

at("query").onsubmit = (event) => {
  event.preventDefault();
  run();
};
for (const [name, sql] of EXAMPLES) at("examples").append(new Option(name, sql));
at("examples").onchange = () => {
  at("sql").value = at("examples").value;
  run();
};
at("flip").onclick = async () => {
  at("flip").disabled = true;
  for (let tried = 0; tried < FLIPS; tried += 1) {
    const { offset } = await (await fetch("/control/flip", { method: "POST" })).json();
    const others = tried ? ` (${tried} before it made no difference.)` : "";
    at("flipped").textContent = `Byte ${offset.toLocaleString("en")} of the file is another one now.${others}`;
    at("mend").disabled = false;
    if (await run()) break;
  }
};
at("mend").onclick = async () => {
  await fetch("/control/mend", { method: "POST" });
  at("flipped").textContent = "The file is as it was.";
  at("mend").disabled = true;
  await run();
};

const { plain, packed, delay } = await (await fetch("/control/state")).json();
at("file").textContent =
  `${size(plain)} of SQLite, packed into ${size(packed)}, on a server that knows nothing of SQLite. ` +
  `Each query opens it anew. Each answer comes ${delay} ms late, as from far away.`;
at("sql").value = EXAMPLES[0][1];
await run();
document.body.dataset.ready = "yes";
