// The charts of a report. One is drawn when it comes near the window, so that a long report opens at
// once; one of very many rows when its reader asks for it.
"use strict";

const json = id => JSON.parse(document.getElementById(id).textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const [NARROW, AXIS, LEAST_PLOT, LETTER] = [700, 90, 180, 7.5];  // in CSS pixels
const MOST_ROWS = 400;  // in a chart that is drawn unasked: more take seconds
const looks = json("looks");
const drawn = new Map();  // what was drawn, by its figure

// On a narrow screen panels stand below each other, no wider than the screen.
function fitted(spec, room) {
  const {hconcat, vconcat, concat, ...rest} = spec;
  const panels = hconcat ?? vconcat ?? concat;
  if (panels) return {...rest, vconcat: panels.map(panel => fitted(panel, room)), columns: undefined};
  if (spec.spec) return {...spec, spec: fitted(spec.spec, room)};
  const narrow = {...spec, width: Math.min(spec.width, room)};
  narrow.layer = spec.layer?.map(layer => narrowed(layer, room / LETTER));
  if (spec.title) narrow.title = {...spec.title, text: wrapped(spec.title.text, room / LETTER)};
  return narrow;
}

function wrapped(lines, letters) {
  const pattern = new RegExp(`(.{1,${Math.floor(letters)}})(?:\\s+|$)`, "g");
  return [lines].flat().join(" ").match(pattern)?.map(line => line.trim()) ?? lines;
}

// Wraps the title of the axis, and slants labels that would overlap.
function narrowed(layer, letters) {
  if (layer.layer) return {...layer, layer: layer.layer.map(inner => narrowed(inner, letters))};
  if (!layer.encoding?.x) return layer;
  const x = {...layer.encoding.x};
  if (typeof x.title === "string") x.title = wrapped(x.title, letters);
  if (x.axis?.labelAngle === 0) x.axis = {...x.axis, labelAngle: -45};
  return {...layer, encoding: {...layer.encoding, x}};
}

// The specification of a figure, and how it looks in this window.
function designOf(figure, place) {
  const spec = json(`chart-${figure.dataset.chart}`);
  const config = looks[dark.matches ? "dark" : "light"];
  if (place.clientWidth >= NARROW || "wide" in figure.dataset) return {spec, config};
  return {
    spec: fitted(spec, Math.max(LEAST_PLOT, place.clientWidth - AXIS)),
    config: {...config, legend: {...config.legend, columns: 1}},
  };
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

// A mark of one benchmark leads to its row.
function openRowOf(item) {
  const {name, file} = item?.datum ?? {};
  if (!name || item.mark.marktype === "line") return;
  const row = document.getElementById(`${name}@${file}`) ?? document.getElementById(name);
  if (row) location.hash = encodeURIComponent(row.id);
}

// A button in the place of a chart that would keep the page busy.
function offer(figure) {
  const button = document.createElement("button");
  button.textContent = `Draw this chart of ${figure.dataset.rows} rows`;
  button.addEventListener("click", () => draw(figure));
  figure.querySelector(".drawing").replaceChildren(button);
  figure.classList.add("drawn");
}

const near = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    if (target.dataset.rows > MOST_ROWS) offer(target);
    else draw(target);
  }
}, {rootMargin: "600px"});

for (const figure of document.querySelectorAll("figure")) near.observe(figure);
dark.addEventListener("change", () => [...drawn.keys()].forEach(draw));
