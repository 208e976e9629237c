// The tables of a report: sorted by a click on a heading, searched, and folded.
//
// A folded table is opened by a search that finds something in it, or by a link to one of its rows.
// What is searched for stands in the address, as ?search=WORDS, so that it can be passed on.
"use strict";

const NARROW_SCREEN = matchMedia("(max-width: 40rem)");
const MOST_UNFOLDED = 20;  // rows on a narrow screen
const search = document.getElementById("search");
const found = document.getElementById("found");
const elements = [...document.querySelectorAll("table.rows")];
globalThis.rowNames = new Set([...document.querySelectorAll("table.rows tr[id]")].map(row => row.id));

// ---- the tables

const collator = new Intl.Collator("en", {numeric: true});
const textOf = cell => cell.textContent.trim();

// Numbers by size, other texts by their letters and numbers, empty cells last either way.
const cellOrder = direction => ([a], [b]) => {
  if (!a || !b) return !a - !b;
  const [x, y] = [parseFloat(a), parseFloat(b)];
  return direction * (isNaN(x) || isNaN(y) ? collator.compare(a, b) : x - y);
};

function sortBy(heading) {
  const body = heading.closest("table").tBodies[0], last = heading.getAttribute("aria-sort");
  const falls = last ? last === "ascending" : heading.classList.contains("number");
  for (const one of heading.parentNode.cells) one.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", falls ? "descending" : "ascending");
  const keyed = [...body.rows].map(row => [textOf(row.cells[heading.cellIndex]), row]);
  body.append(...keyed.sort(cellOrder(falls ? -1 : 1)).map(([, row]) => row));
}

function makeSortable(heading) {
  const button = document.createElement("button");
  button.append(...heading.childNodes);
  heading.append(button);
  heading.addEventListener("click", () => sortBy(heading));
}

for (const element of elements) [...element.tHead.rows[0].cells].forEach(makeSortable);

// Two of three columns are extra. They join a table when they are first asked for.
function addColumns(element) {
  const extra = element.querySelector("template");
  if (!extra) return;
  [...extra.content.children].forEach(makeSortable);
  element.tHead.rows[0].append(extra.content);
  extra.remove();
  for (const row of element.tBodies[0].rows) {
    for (const figure of row.dataset.more.split("|").slice(1)) {
      Object.assign(row.insertCell(), {textContent: figure, className: "number extra"});
    }
  }
}

document.getElementById("all-counters").addEventListener("change", event => {
  for (const element of elements) {
    addColumns(element);
    element.classList.toggle("few", !event.target.checked);
  }
});

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

const UNITS = {k: 2 ** 10, m: 2 ** 20, g: 2 ** 30};

// A size may be searched for as 64M too: names write it out.
function written(word) {
  return word.replace(/(^|:)(\d+)([kmg])$/, (_, before, count, unit) => before + count * UNITS[unit]);
}

const searched = new Map();  // the text of each row, without extra columns

function searchable(row) {
  if (!searched.has(row)) {
    const cells = [...row.cells].filter(cell => !cell.classList.contains("extra"));
    searched.set(row, cells.map(textOf).join(" ").toLowerCase());
  }
  return searched.get(row);
}

// Shows the rows that have every word, and opens the tables that have such a row.
function filterRows() {
  writeAddress();
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = text => words.every(word => text.includes(word) || text.includes(written(word)));
  let hits = 0, all = 0;
  for (const element of elements) {
    const rows = [...element.tBodies[0].rows];
    for (const row of rows) row.hidden = words.length > 0 && !matches(searchable(row));
    const matching = rows.filter(row => !row.hidden).length;
    const fold = element.closest("details");
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
  show(document.querySelector("details[open] table.rows tbody tr:not([hidden])"));
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

// ---- links to rows

// Brings the row that the address names into sight; the style marks it.
function showTarget() {
  let name = location.hash.slice(1);
  try {
    name = decodeURIComponent(name);
  } catch {
    return;  // not an address that this page wrote
  }
  if (!rowNames.has(name)) {
    if (!document.getElementById(name)) found.textContent = name && `no row is called ${name}`;
    return;
  }
  const row = document.getElementById(name);
  if (row.hidden) {  // a search left it out
    search.value = "";
    filterRows();
  }
  row.closest("details").open = true;
  show(row);
}

addEventListener("hashchange", showTarget);
document.addEventListener("click", event => {
  // A second click on the same link changes no address, and must work all the same.
  if (event.target.closest("a")?.hash === location.hash) showTarget();
});

if (NARROW_SCREEN.matches) {
  for (const element of elements) {
    if (element.tBodies[0].rows.length > MOST_UNFOLDED) element.closest("details")?.removeAttribute("open");
  }
}
search.value = new URLSearchParams(location.search).get("search") ?? "";
if (search.value) searchRows();
if (location.hash) showTarget();
