// The tables of a report: sorting, searching, more columns, and links to rows.
//
// A folded table is opened by a search that finds something in it, or by a link to one of its rows.
// What is searched for stands in the address, as ?search=WORDS, so that it can be passed on.
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

// ---- bringing a row into sight

let shown = null;  // the row that was, until the reader goes on from there

function show(row) {
  shown = row;
  row?.scrollIntoView({block: "center"});
}

// Charts above a row move it when they are drawn.
new ResizeObserver(() => show(shown)).observe(document.body);
for (const act of ["wheel", "touchmove", "pointerdown", "keydown"]) {
  addEventListener(act, () => { shown = null; }, {passive: true});
}

// ---- searching

const texts = new Map();

function textOf(row) {
  if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
  return texts.get(row);
}

const UNITS = {k: 2 ** 10, m: 2 ** 20, g: 2 ** 30};

// A size may be searched for as 64M too: names write it out.
function written(word) {
  return word.replace(/(^|:)(\d+)([kmg])$/, (_, before, count, unit) => before + count * UNITS[unit]);
}

// Shows the rows that have every word, and opens the tables that have such a row.
function filterRows() {
  writeAddress();
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let hits = 0, all = 0;
  for (const table of tables) {
    let matching = 0;
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) {
      const has = word => textOf(row).includes(word) || textOf(row).includes(written(word));
      row.hidden = !words.every(has);
      matching += !row.hidden;
    }
    const fold = table.closest("details");
    fold.dataset.unsearched ??= fold.open;
    fold.open = words.length ? matching > 0 : fold.dataset.unsearched === "true";
    if (!words.length) delete fold.dataset.unsearched;
    const note = fold.querySelector(".matching");
    if (!note) continue;  // the changes, whose benchmarks are rows of another table
    note.textContent = words.length ? `· ${matching} found` : "";
    hits += matching;
    all += rows.length;
  }
  found.textContent = words.length ? `${hits} of ${all} rows` : "";
}

function writeAddress() {
  const address = new URL(location);
  address.searchParams.delete("search");
  if (search.value.trim()) address.searchParams.set("search", search.value.trim());
  if (address.href !== location.href) history.replaceState(null, "", address);
}

function searchRows() {
  filterRows();
  if (!search.value.trim()) return;
  show(document.querySelector("table.rows tbody tr:not([hidden])"));
}

let waiting;
search.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(searchRows, 120);
});

// The key / leads to the search, as on many sites, unless it is typed somewhere.
addEventListener("keydown", event => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input:not([type=checkbox]), textarea, select")) return;
  event.preventDefault();
  search.select();
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
  show(target);
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
search.value = new URLSearchParams(location.search).get("search") ?? "";
if (search.value) searchRows();
if (location.hash) showTarget();
