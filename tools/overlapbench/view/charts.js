// The charts of a page. One is drawn when it comes near the window, so that a long page opens at once;
// one of very many rows when its reader asks for it. Before printing, every chart is drawn.
"use strict";

const json = id => JSON.parse(document.getElementById(id).textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("screen and (max-width: 45rem)");
const [AXIS, KEY, LEAST_PLOT, LETTER] = [100, 100, 180, 7.5];  // in CSS pixels
const MOST_ROWS = 400;  // in a chart that is drawn unasked: more take seconds
const looks = json("looks");
const drawn = new Map();  // what was drawn, by its figure
let printing = false;

// On a narrow screen panels stand below each other, no wider than the screen.
function fitted(spec, room) {
  const {hconcat, vconcat, concat, ...rest} = spec;
  const panels = hconcat ?? vconcat ?? concat;
  if (panels) return {...rest, vconcat: panels.map(panel => fitted(panel, room)), columns: undefined};
  if (spec.spec) return {...spec, spec: fitted(spec.spec, room)};
  const fit = {...spec, width: Math.min(spec.width, room)};
  fit.layer = spec.layer?.map(layer => narrowed(layer, room));
  if (spec.title) fit.title = {...spec.title, text: wrapped(spec.title.text, room / LETTER)};
  return fit;
}

function wrapped(lines, letters) {
  const pattern = new RegExp(`(.{1,${Math.floor(letters)}})(?:\\s+|$)`, "g");
  return [lines].flat().join(" ").match(pattern)?.map(line => line.trim()) ?? lines;
}

// Wraps the titles of axes and the labels of legends, and slants labels that would overlap.
function narrowed(layer, room) {
  if (layer.layer) return {...layer, layer: layer.layer.map(inner => narrowed(inner, room))};
  const encoding = Object.fromEntries(Object.entries(layer.encoding ?? {}).map(
    ([channel, how]) => [channel, how.legend ? {...how, legend: inOneColumn(how.legend, room)} : how]));
  if (encoding.x) {
    const x = encoding.x = {...encoding.x};
    if (typeof x.title === "string") x.title = wrapped(x.title, room / LETTER);
    if (x.axis?.labelAngle === 0) x.axis = {...x.axis, labelAngle: -45};
  }
  return {...layer, encoding};
}

function inOneColumn(legend, room) {
  if (legend.direction === "horizontal") return legend;
  const letters = Math.floor((room + AXIS - KEY) / LETTER);
  const lines = `replace(datum.label, regexp('(.{1,${letters}})( |$)', 'g'), '$1\\n')`;
  return {...legend, columns: 1, labelExpr: `split(trim(${lines}), '\\n')`};
}

// The specification of a figure, and how it looks in this window.
function designOf(figure, place) {
  const spec = json(`chart-${figure.dataset.chart}`);
  const config = looks[dark.matches && !printing ? "dark" : "light"];
  if (!narrow.matches || "wide" in figure.dataset) return {spec, config};
  return {spec: fitted(spec, Math.max(LEAST_PLOT, place.clientWidth - AXIS)), config};
}

async function draw(figure) {
  const place = figure.querySelector(".drawing");
  try {
    const {spec, config} = designOf(figure, place);
    const {view, finalize} = await vegaEmbed(place, spec, {
      config, renderer: "svg", actions: false, ast: true, defaultStyle: false,
      logLevel: 1,  // errors: an empty layer is none
      tooltip: {disableDefaultStyle: true},
    });
    near.unobserve(figure);
    drawn.get(figure)?.();
    drawn.set(figure, finalize);
    figure.classList.add("drawn");
    figure.classList.toggle("cut", place.scrollWidth > place.clientWidth);
    view.addEventListener("click", (event, item) => openRowOf(item));
  } catch (error) {
    place.textContent = `This chart could not be drawn: ${error.message}`;
    place.classList.add("error");
  }
}

// A mark of one benchmark leads to its row, where the page has tables (report/tables.js).
function openRowOf(item) {
  const {name, file} = item?.datum ?? {};
  if (!name || item.mark.marktype === "line") return;
  const row = [`${name}@${file}`, name].find(id => globalThis.rowNames?.has(id));
  if (row) location.hash = encodeURIComponent(row);
}

// A button in the place of a chart that would keep the page busy.
function offer(figure) {
  near.unobserve(figure);
  const button = document.createElement("button");
  button.textContent = `Draw this chart of ${figure.dataset.rows} rows`;
  button.addEventListener("click", () => draw(figure));
  figure.querySelector(".drawing").replaceChildren(button);
  figure.classList.add("drawn");
}

const near = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    if (!isIntersecting) continue;
    if (target.dataset.rows > MOST_ROWS) offer(target);
    else draw(target);
  }
}, {rootMargin: "600px"});

const redraw = () => [...drawn.keys()].forEach(draw);
const figures = [...document.querySelectorAll("figure")];
for (const figure of figures) near.observe(figure);
for (const query of [dark, narrow]) query.addEventListener("change", redraw);

// On paper charts are light. A drawing only awaits what is there, so it is done before the pages are.
addEventListener("beforeprint", () => {
  printing = true;
  for (const figure of figures) if (dark.matches || !drawn.has(figure)) draw(figure);
});
addEventListener("afterprint", () => {
  printing = false;
  if (dark.matches) redraw();
});
