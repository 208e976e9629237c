// The tables of a report: sorting, searching, more columns, and links to rows.
//
// A folded table is opened by a search that finds something in it, or by a link to one of its rows.
"use strict";

const NARROW_SCREEN = matchMedia("(max-width: 40rem)");
const MOST_UNFOLDED = 20;  // rows on a narrow screen
const search = document.getElementById("search");
const found = document.getElementById("found");
const tables = [...document.querySelectorAll("table.rows")];

// ---- sorting

const collator = new Intl.Collator("en", {numeric: true});

// Numbers by size, other texts by their letters and numbers, empty cells last either way.
function compareCells(a, b, direction) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const [x, y] = [parseFloat(a), parseFloat(b)];
  const order = isNaN(x) || isNaN(y) ? collator.compare(a, b) : x - y;
  return direction * order;
}

// The first click on a figure shows the largest first, on a text the first of the alphabet.
function sortBy(header) {
  const numeric = header.classList.contains("number");
  const current = header.getAttribute("aria-sort") ?? (numeric ? "ascending" : "descending");
  const next = current === "ascending" ? "descending" : "ascending";
  for (const other of header.parentElement.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", next);
  const body = header.closest("table").tBodies[0];
  const keyed = [...body.rows].map(row => [row.cells[header.cellIndex].textContent.trim(), row]);
  const direction = next === "ascending" ? 1 : -1;
  keyed.sort((a, b) => compareCells(a[0], b[0], direction));
  body.append(...keyed.map(([, row]) => row));
}

for (const table of tables) {
  table.tHead.addEventListener("click", event => {
    if (event.target.tagName === "BUTTON") sortBy(event.target.closest("th"));
  });
}

// ---- searching

const texts = new Map();

function textOf(row) {
  if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
  return texts.get(row);
}

// Shows the rows that have every word, and opens the tables that have such a row.
function filterRows() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0, all = 0;
  for (const table of tables) {
    let matching = 0;
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) {
      row.hidden = !words.every(word => textOf(row).includes(word));
      matching += !row.hidden;
    }
    const fold = table.closest("details");
    fold.dataset.unsearched ??= fold.open;
    fold.open = words.length ? matching > 0 : fold.dataset.unsearched === "true";
    if (!words.length) delete fold.dataset.unsearched;
    const note = fold.querySelector(".matching");
    if (!note) continue;  // the changes, whose benchmarks are rows of another table
    note.textContent = words.length ? `· ${matching} found` : "";
    shown += matching;
    all += rows.length;
  }
  found.textContent = words.length ? `${shown} of ${all} rows` : "";
}

let waiting;
search.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(filterRows, 120);
});

// ---- all counters

// Their cells are made when they are first asked for: two of three in a table are among them.
function addCells() {
  for (const row of document.querySelectorAll("tr[data-more]")) {
    for (const figure of row.dataset.more.split("|").slice(1)) {
      const cell = row.insertCell();
      cell.className = "number extra";
      cell.textContent = figure;
    }
    delete row.dataset.more;
  }
}

document.getElementById("all-counters").addEventListener("change", event => {
  addCells();
  document.body.classList.toggle("all-counters", event.target.checked);
});

// ---- links to rows

// Brings the row that the address names into sight; the style marks it.
function showTarget() {
  let name = location.hash.slice(1);
  try {
    name = decodeURIComponent(name);
  } catch {
    return;  // not an address that this page wrote
  }
  const target = document.getElementById(name);
  if (!target) {
    found.textContent = name ? `no row is called ${name}` : "";
    return;
  }
  if (target.tagName !== "TR") return;
  if (target.hidden) {
    search.value = "";
    filterRows();
  }
  target.closest("details").open = true;
  target.scrollIntoView({block: "center"});
}

addEventListener("hashchange", showTarget);
document.addEventListener("click", event => {
  // A second click on the same link changes no address, and must work all the same.
  if (event.target.closest("a")?.hash === location.hash) showTarget();
});

if (NARROW_SCREEN.matches) {
  for (const table of tables) {
    if (table.tBodies[0].rows.length > MOST_UNFOLDED) table.closest("details").open = false;
  }
}
showTarget();
