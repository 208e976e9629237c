// The charts of a page. One is drawn when it comes near the window, so that a long page opens at once;
// one of very many rows when its reader asks for it. Before printing, every chart is drawn.
"use strict";

const json = id => JSON.parse(document.getElementById(id).textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const [NARROW, PAPER] = [720, 900];  // in CSS pixels: below it, panels stand below each other; a page
const [LEAST_PLOT, LEAST_CELL, SMALL_LETTER, LETTER, BOLD, SPARE] = [180, 17, 4.7, 7.5, 9, 8];
const [ABOVE, MARGIN] = [17, 14];  // of a label above a bar, a cell or a lane; beside narrow panels
const DETAILED = 44;  // the width of a cell with more than its figure
const MOST_ROWS = 400;  // in a chart that is drawn unasked: more take seconds
const looks = json("looks");
const drawn = new Map();  // what was drawn, by its figure
let printing = false;

const isBand = channel => channel?.type === "nominal" && channel.scale?.domain;

// The specification with so many columns of panels, each with so wide a plot.
function fitted(spec, columns, plot, small) {
  if (!spec.concat) return panelOf(spec, plot, small);
  return {...spec, columns, concat: spec.concat.map(panel => panelOf(panel, plot, small))};
}

function panelOf(panel, plot, small) {
  const cells = Math.max(...panel.layer.map(({encoding: {x}}) => isBand(x)?.length ?? 0));
  const width = Math.max(plot, cells * LEAST_CELL, LEAST_PLOT);
  const lanes = panel.layer.map(({encoding: {y}}) => isBand(y)).find(Boolean);
  const band = lanes && panel.height / lanes.length;
  const fit = {...panel, width};
  if (panel.title) fit.title = wrappedTitle(panel.title, width / BOLD);
  if (small && lanes) fit.height = (band + ABOVE) * lanes.length + ABOVE;
  fit.layer = panel.layer.filter(layer => !isTooLong(layer, width / cells, panel.data?.values))
    .map(layer => layerOf(layer, {width, cell: width / cells, band, small}));
  return fit;
}

function wrapped(lines, letters) {
  const part = `.{1,${Math.floor(letters)}}`;  // to a space, else a slash in a name, else anywhere
  const pattern = new RegExp(`${part}(?:\\s+|$)|${part}(?<=/)|${part}`, "g");
  return [lines].flat().flatMap(line => line.match(pattern).map(text => text.trim()));
}

const joined = lines => [lines].flat().join(" ").replaceAll("/ ", "/");

function wrappedTitle(title, letters) {
  const {text, subtitle, ...rest} = title;
  const below = subtitle && {subtitle: wrapped(subtitle, letters * BOLD / LETTER)};
  return {...rest, text: wrapped(joined(text), letters), ...below};
}

// Cells too small for what stands below their figure show the figure alone.
function isTooLong({mark, encoding}, cell, records) {
  const field = encoding.text?.field ?? "";
  if (mark.type !== "text" || !/^line[1-9]/.test(field)) return false;
  const longest = Math.max(...records.map(record => record[field]?.length ?? 0));
  return cell < Math.max(DETAILED, longest * SMALL_LETTER);
}

// Labels of axes that have no room side by side are slanted.
function angleOf(x, width, small) {
  const angle = x.axis.labelAngle, labels = x.scale?.domain ?? [];
  if (isBand(x)) return small && angle ? -90 : angle;
  const longest = Math.max(0, ...labels.map(label => `${label}`.length));
  const crowded = x.type === "ordinal" && longest * labels.length * LETTER > width;
  return angle === 0 && (small || crowded) ? -45 : angle;
}

// On a small screen, labels of bars, cells and lanes stand above them, and a legend in one column.
function layerOf(layer, {width, cell, band, small}) {
  const encoding = {...layer.encoding}, fit = {...layer, encoding};
  const {x, y} = encoding;
  if (layer.transform?.[0].filter === "datum.label") {  // names on bars, of those with room
    const [from, to] = x.scale.domain;
    const room = `(datum.to - datum.from) * ${width / (to - from)}`;
    fit.transform = [{filter: `datum.label && length(datum.label) * ${LETTER} < ${room}`}];
  }
  if (layer.mark.type === "text" && isBand(x)) {
    const figure = cell < DETAILED && {dy: 0, fontSize: Math.min(12, cell / 2.4)};
    fit.mark = {...layer.mark, ...figure, limit: cell - 1};
  }
  if (x?.axis || x?.title) {
    const title = x.title && wrapped(joined(x.title), width / LETTER);
    encoding.x = {...x, title, ...(x.axis && {axis: {...x.axis, labelAngle: angleOf(x, width, small)}})};
  }
  if (!small) return fit;
  for (const [channel, how] of Object.entries(encoding)) {
    if (how.legend) encoding[channel] = {...how, legend: inOneColumn(how.legend, width)};
  }
  if (isBand(y)) encoding.y = {...y, title: null, ...labelledAbove(y, width, band)};
  return fit;
}

function labelledAbove({axis, scale}, width, band) {
  const padding = ABOVE / (band + ABOVE);
  return {
    axis: {...axis, labels: true, labelAlign: "left", labelBaseline: "bottom", labelPadding: -1,
           labelOffset: -band / 2 - 1, labelLimit: width, minExtent: 0},
    scale: {...scale, paddingInner: padding, paddingOuter: padding},
  };
}

function inOneColumn(legend, room) {
  if (legend.direction === "horizontal") return {...legend, gradientLength: Math.min(200, room / 2)};
  const letters = Math.floor(room / LETTER);
  const lines = `replace(datum.label, regexp('(.{1,${letters}})( |$)', 'g'), '$1\\n')`;
  return {...legend, columns: 1, labelExpr: `split(trim(${lines}), '\\n')`};
}

// Draws as wide as the place is. What stands beside the plots is known only from a drawing.
async function drawIn(place, spec, config) {
  const room = printing ? PAPER : place.clientWidth, panels = spec.concat;
  let small = room < NARROW, columns = small || !panels ? 1 : spec.columns ?? panels.length;
  let beside = small ? 2 * MARGIN : PAPER / columns - (panels?.[0] ?? spec).width, view, before;
  for (let attempt = 0; attempt < 4; ++attempt) {
    const fit = fitted(spec, columns, room / columns - beside, small);
    view?.finalize();
    view = await vegaEmbed(place, fit, {
      config, renderer: "svg", actions: false, ast: true, defaultStyle: false,
      logLevel: 1,  // errors: an empty layer is none
      tooltip: {disableDefaultStyle: true, sanitize: toldAs},
    });
    const width = place.querySelector("svg").width.baseVal.value;
    if (width <= room && width > 0.95 * room) break;
    beside += (width - room + SPARE) / columns;
    // A legend may be wider than the plots.
    const stuck = room / columns - beside < LEAST_PLOT || Math.abs(width - before) < 1;
    if (!small && stuck) [small, columns, beside] = [true, 1, 2 * MARGIN];
    before = width;
  }
  return view;
}

// As text of a page; a figure that a row lacks is left out.
const toldAs = value => ["NaN", "null", "undefined"].includes(`${value}`)
  ? "" : `${value}`.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

async function draw(figure) {
  const place = figure.querySelector(".drawing");
  try {
    const spec = json(`chart-${figure.dataset.chart}`);
    const {view, finalize} = await drawIn(place, spec, looks[dark.matches && !printing ? "dark" : "light"]);
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
dark.addEventListener("change", redraw);
let width = innerWidth, resizing;
addEventListener("resize", () => {
  if (innerWidth === width) return;  // a phone's bars come and go
  width = innerWidth;
  clearTimeout(resizing);
  resizing = setTimeout(redraw, 150);
});

// On paper charts are light. A drawing only awaits what is there, so it is done before the pages are.
addEventListener("beforeprint", () => {
  printing = true;
  for (const figure of figures) if (dark.matches || !drawn.has(figure)) draw(figure);
});
addEventListener("afterprint", () => {
  printing = false;
  if (dark.matches) redraw();
});
