// What a reader does with a report: sort and search tables, follow links to rows, look at charts.
//
// Everything is on the page already. A chart is drawn when it comes near the window, so that a long
// report opens at once; a folded table is opened by a search that finds something in it, or by a
// link to one of its rows.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
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
  if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase().replaceAll("\u200b", ""));
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

document.getElementById("all-counters").addEventListener("change", event => {
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

// ---- charts, and what a narrow screen needs

const dark = matchMedia("(prefers-color-scheme: dark)");
const [NARROW, AXIS, LEAST_PLOT] = [700, 90, 180];  // in CSS pixels
const MOST_UNFOLDED = 20;  // rows on a narrow screen
const drawn = new Map();  // what was drawn, by its figure

// On a narrow screen panels stand below each other, no wider than the screen.
function fitted(spec, room) {
  const {hconcat, vconcat, concat, ...rest} = spec;
  const panels = hconcat ?? vconcat ?? concat;
  if (panels) return {...rest, vconcat: panels.map(panel => fitted(panel, room)), columns: undefined};
  if (spec.spec) return {...spec, spec: fitted(spec.spec, room)};
  return {...spec, width: Math.min(spec.width, room), layer: spec.layer?.map(slanted)};
}

// Labels that stand side by side on a wide screen would overlap.
function slanted(layer) {
  const x = layer.encoding?.x;
  if (layer.layer) return {...layer, layer: layer.layer.map(slanted)};
  if (x?.axis?.labelAngle !== 0) return layer;
  return {...layer, encoding: {...layer.encoding, x: {...x, axis: {...x.axis, labelAngle: -45}}}};
}

function specOf(figure, place) {
  const spec = data.charts[figure.dataset.chart];
  const narrow = place.clientWidth < NARROW && !("wide" in figure.dataset);
  return narrow ? fitted(spec, Math.max(LEAST_PLOT, place.clientWidth - AXIS)) : spec;
}

async function draw(figure) {
  const place = figure.querySelector(".drawing");
  try {
    const {view, finalize} = await vegaEmbed(place, specOf(figure, place), {
      config: dark.matches ? data.looks.dark : data.looks.light,
      renderer: "svg", actions: false, ast: true, defaultStyle: false,
      logLevel: 1,  // errors: an empty layer is none
      tooltip: {disableDefaultStyle: true},
    });
    drawn.get(figure)?.();
    drawn.set(figure, finalize);
    figure.classList.add("drawn");
    view.addEventListener("click", (event, item) => openRowOf(item));
  } catch (error) {
    place.textContent = `This chart could not be drawn: ${error.message}`;
    place.classList.add("error");
  }
}

// A mark of one benchmark leads to its row.
function openRowOf(item) {
  const {name, file} = item?.datum ?? {};
  if (!name || item.mark.marktype === "line") return;
  const row = document.getElementById(`${name}@${file}`) ?? document.getElementById(name);
  if (row) location.hash = encodeURIComponent(row.id);
}

const near = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    draw(target);
  }
}, {rootMargin: "600px"});

if (innerWidth < NARROW) {
  for (const table of tables) {
    if (table.tBodies[0].rows.length > MOST_UNFOLDED) table.closest("details").open = false;
  }
}
for (const figure of document.querySelectorAll("figure")) near.observe(figure);
dark.addEventListener("change", () => [...drawn.keys()].forEach(draw));
showTarget();
