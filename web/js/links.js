// Link utilisation: on the drawing of a small fabric, by switch on a large one, and as a distribution per layer on both.

const TEN_THOUSAND = 10000;

function links(model) {
  const runs = model.runs.filter((r) => r.links.layers.length > 0);
  const title = "Link utilisation";
  if (runs.length === 0) return null;
  const view = { shown: null, colour: "mean", frame: 0, timer: null };
  const body = h("div", {});
  const draw = () => body.replaceChildren(...linkView(model, model.runs[model.selected], view, draw));
  const options = runs.map((r) => ({ value: String(r.index), label: r.label }));
  const pick = (value) => {
    model.selected = Number(value);
    view.frame = 0;
    stop(view);
    draw();
  };
  const picker = runs.length > 1 ? choice("Run", options, String(model.selected), pick) : null;
  const left = model.runs.length - runs.length;
  const lead = "Mean utilisation of each link over the whole run, by direction."
    + (left > 0 ? ` This file holds the links of ${plural(runs.length, "run")}; those of the other ${left} are in links.parquet of their results folders.` : "");
  draw();
  return section("links", title, lead, h("div", { class: "row spread controls" }, picker, heatKey()), body);
}

function heatKey() {
  const cells = Array.from({ length: SHADES + 1 }, (_, i) => s("rect", { x: i * 9, y: 0, width: 9.2, height: 12, fill: `var(--h${i})` }));
  return h("span", { class: "heat-key" }, "0 %", s("svg", { viewBox: "0 0 189 12", preserveAspectRatio: "none", role: "img", "aria-label": "Colours from idle to fully used" }, cells), "100 % utilised");
}

function linkView(model, run, view, redraw) {
  const fabric = run.fabricOf;
  const detailed = fabric.wiring && run.links.bytes.length > 0;
  const parts = detailed ? smallView(run, view) : largeView(run, view, redraw);
  const spreads = detailed ? [h("h3", { class: "sub" }, "Utilisation by layer, links sorted from least to most used"), strips(run)] : [];
  return [...parts, ...spreads, busiestTable(run)];
}

// --- drawn in full ---

function smallView(run, view) {
  const fabric = run.fabricOf;
  const { wiring } = fabric;
  const { frames } = run.links;
  const shown = () => view.shown ?? (wiring.from.length <= 200 ? "both" : "busier");
  const bytes = (link) => run.links.bytes[link] * run.links.unit_bytes;
  const mean = (link) => (bytes(link) * 8) / (wiring.capacity_bps[link >> 1] * run.ended_s);
  const use = (link) => (frames && view.frame > 0 ? frames.percent[(view.frame - 1) * wiring.from.length * 2 + link] / 100 : mean(link));
  const name = (link) => {
    const [a, b] = [wiring.from[link >> 1], wiring.to[link >> 1]].map((node) => wiring.names[node]);
    return link % 2 === 0 ? `${a} → ${b}` : `${b} → ${a}`;
  };
  const read = (cable) => ({
    heading: `${wiring.names[wiring.from[cable]]} – ${wiring.names[wiring.to[cable]]}, ${trimmed("bps", wiring.capacity_bps[cable])}`,
    rows: [2 * cable, 2 * cable + 1].map((link) => ({ label: name(link), value: `${percent(use(link))}${view.frame > 0 && frames ? "" : ` · ${quantity("B", bytes(link))}`}`, colour: shade(use(link)), shape: "" })),
  });
  const figure = h("figure", {});
  const redraw = responsive(figure, (width) => drawFabric(fabric, width, { use, read, shown: shown(), summary: layerSummary(run) }));
  const directions = [["both", "both"], ["up", "up"], ["down", "down"], ["busier", "maximum"]].map(([value, label]) => ({ value, label }));
  const picker = choice("Direction", directions, shown(), (value) => { view.shown = value; redraw(); });
  redraw();
  return [h("div", { class: "row controls" }, picker), figure, frames && clock(run, view, redraw)].filter(Boolean);
}

// A slider over time: 0 is the mean over the run, then frame by frame.
function clock(run, view, redraw) {
  const { frames } = run.links;
  const reading = h("output", {});
  const slider = h("input", { type: "range", min: 0, max: frames.count, step: 1, value: view.frame, "aria-label": "Time; the leftmost position is the mean of the whole run" });
  const show = () => {
    slider.value = String(view.frame);
    const from = (view.frame - 1) * frames.width_s;
    const text = view.frame === 0 ? "mean of the run" : `${digits(from)} to ${digits(from + frames.width_s)} s`;
    reading.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    redraw();
  };
  const button = h("button", { class: "button", type: "button" }, "Play");
  button.addEventListener("click", () => {
    if (view.timer) stop(view);
    else {
      view.timer = setInterval(() => {
        view.frame = (view.frame % frames.count) + 1;
        show();
      }, 160);
    }
    button.textContent = view.timer ? "Stop" : "Play";
  });
  slider.addEventListener("input", () => {
    view.frame = Number(slider.value);
    show();
  });
  show();
  return h("div", { class: "clock" }, button, h("span", {}, "Time"), slider, reading);
}

function stop(view) {
  clearInterval(view.timer);
  view.timer = null;
}

// --- by switch ---

function largeView(run, view, redraw) {
  const options = [{ value: "mean", label: "mean of its links" }, { value: "busiest", label: "busiest link" }];
  const picker = choice("One tile per switch; colour:", options, view.colour, (value) => { view.colour = value; redraw(); });
  const fabric = run.fabricOf;
  const panels = fabric.layers.map((layer, i) => ({ layer, use: run.links.layers[i], i })).reverse().map(({ layer, use }) => {
    const pair = directionsOf(layer, use).map(({ name, spread }) => tilePanel(fabric, layer, spread, name, view, run));
    return h("div", { class: "layer" }, layerTitle(fabric, layer), h("div", { class: "pair" }, pair));
  });
  return [h("div", { class: "row controls" }, picker), h("div", { class: "layers" }, panels)];
}

const layerName = (fabric, layer) => (layer.lower === layer.upper ? `${fabric.tiers[layer.lower].name} – ${fabric.tiers[layer.lower].name}` : `${fabric.tiers[layer.lower].name} – ${fabric.tiers[layer.upper].name}`);
const layerTitle = (fabric, layer) => h("h3", {}, layerName(fabric, layer), h("small", {}, ` · ${plural(layer.cables, "cable")} · ${trimmed("bps", layer.capacity_bps)} per direction`));

function directionsOf(layer, use) {
  if (layer.lower === layer.upper) return [{ name: "across", spread: use.up }];
  return [{ name: layer.lower === 0 ? "up, from the hosts" : "up", spread: use.up }, { name: layer.lower === 0 ? "down, to the hosts" : "down", spread: use.down }];
}

// Switches as tiles: a column a pod where there are pods of one size, else row by row.
function tilePanel(fabric, layer, spread, direction, view, run) {
  const count = layer.tiles.length;
  const pods = layer.tiles.map(([first]) => fabric.switch_pods[first]);
  const names = [...new Set(pods)];
  const perPod = count / names.length;
  const podwise = !pods.includes(null) && names.length > 1 && names.length <= 200 && Number.isInteger(perPod) && pods.every((p, i) => p === pods[i - (i % perPod)]);
  const values = view.colour === "mean" ? spread.tile_means : spread.tile_maxima;
  const figure = h("figure", {});
  const draw = responsive(figure, (width) => {
    const columns = podwise ? names.length : Math.min(count, Math.max(1, Math.ceil(Math.sqrt(count * 4))));
    const rows = podwise ? perPod : Math.ceil(count / columns);
    const [w, tall] = [width / columns, Math.max(3, Math.min(22, width / columns, 190 / rows))];
    const svg = s("svg", { class: "tiles", viewBox: `0 0 ${width} ${(rows * tall).toFixed(1)}`, role: "img", "aria-label": spreadText(spread) });
    const inset = w > 6 && tall > 5 ? 1 : 0;
    values.forEach((value, i) => {
      const [column, row] = podwise ? [Math.floor(i / perPod), i % perPod] : [i % columns, Math.floor(i / columns)];
      svg.append(s("rect", { x: (column * w).toFixed(2), y: (row * tall).toFixed(2), width: (w - inset).toFixed(2), height: (tall - inset).toFixed(2), rx: inset * 1.5, fill: shade(value / TEN_THOUSAND), "data-i": i }));
    });
    svg.addEventListener("pointermove", (event) => {
      const i = event.target.dataset?.i;
      if (i === undefined) tip.hide();
      else tip.show(event.clientX, event.clientY, tileName(fabric, layer, Number(i)), tileRows(layer, spread, Number(i), run, podwise ? pods[i] : null));
    });
    svg.addEventListener("pointerleave", () => tip.hide());
    return svg;
  });
  draw();
  const axis = podwise && h("div", { class: "axis-row", "aria-hidden": "true" }, h("span", {}, `pod ${names[0]}`), h("span", {}, "one column per pod"), h("span", {}, `pod ${names.at(-1)}`));
  return h("div", {}, h("figcaption", {}, h("b", {}, direction), spreadText(spread)), figure, axis,
    h("p", { class: "fine ranked", "aria-hidden": "true" }, "all links, sorted from least to most used"), stripFigure(spread, direction));
}

function tileName(fabric, layer, i) {
  const [first, last] = layer.tiles[i].map((id) => fabric.switch_names[id]);
  return first === last ? first : `${first} to ${last}`;
}

function tileRows(layer, spread, i, run, pod) {
  const share = spread.tile_means[i] / TEN_THOUSAND;
  return [
    { label: "mean of its links", value: percent(share), colour: shade(share), shape: "" },
    { label: "busiest link", value: percent(spread.tile_maxima[i] / TEN_THOUSAND), colour: shade(spread.tile_maxima[i] / TEN_THOUSAND), shape: "" },
    { label: "bytes", value: quantity("B", (share * layer.tile_bps[i] * run.ended_s) / 8) },
    { label: "capacity", value: trimmed("bps", layer.tile_bps[i]) },
    pod !== null && { label: "pod", value: String(pod) },
  ].filter(Boolean);
}

// --- as distributions ---

function strips(run) {
  const fabric = run.fabricOf;
  const panels = fabric.layers.map((layer, i) => ({ layer, use: run.links.layers[i] })).reverse().map(({ layer, use }) =>
    h("div", { class: "layer" }, layerTitle(fabric, layer), h("div", { class: "pair" }, directionsOf(layer, use).map(({ name, spread }) => strip(spread, name)))));
  return h("div", { class: "layers" }, panels);
}

function strip(spread, direction) {
  return h("div", {}, h("figcaption", {}, h("b", {}, direction), spreadText(spread)), stripFigure(spread, direction));
}

function stripFigure(spread, direction) {
  const figure = h("figure", {});
  const height = 54;
  const draw = responsive(figure, (width) => {
    const count = spread.quantiles.length || 1;
    const w = width / count;
    const svg = s("svg", { class: "strip", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${direction}: ${spreadText(spread)}` });
    spread.quantiles.forEach((value, i) => {
      const tall = Math.max(1, Math.min(1, value / TEN_THOUSAND) * height);
      svg.append(s("rect", { x: (i * w).toFixed(2), y: (height - tall).toFixed(2), width: (w + (count > 60 ? 0.3 : -1)).toFixed(2), height: tall.toFixed(2), fill: shade(value / TEN_THOUSAND) }));
    });
    svg.addEventListener("pointermove", (event) => {
      const bounds = svg.getBoundingClientRect();
      const i = Math.max(0, Math.min(count - 1, Math.floor(((event.clientX - bounds.left) / bounds.width) * count)));
      const rank = count > 1 ? i / (count - 1) : 1;
      const value = spread.quantiles[i] / TEN_THOUSAND;
      tip.show(event.clientX, event.clientY, `${percent(rank, 0)} of ${plural(spread.links, "link")}`, [{ label: "utilisation at most", value: percent(value), colour: shade(value), shape: "" }]);
    });
    svg.addEventListener("pointerleave", () => tip.hide());
    return svg;
  });
  draw();
  return figure;
}

function spreadText(spread) {
  if (spread.quantiles.length === 0) return "no links";
  const full = spread.full > 0 ? `, ${spread.full.toLocaleString("en-US")} of ${plural(spread.links, "link")} at 95 % or more` : "";
  return `mean ${percent(spread.mean / TEN_THOUSAND)}, maximum ${percent(spread.quantiles.at(-1) / TEN_THOUSAND)}${full} · ${quantity("B", spread.bytes)}`;
}

const layerSummary = (run) => run.fabricOf.layers.map((layer, i) => directionsOf(layer, run.links.layers[i]).map(({ name, spread }) => `${layerName(run.fabricOf, layer)} ${name}: ${spreadText(spread)}`)).flat().join("; ");

function busiestTable(run) {
  const rows = run.links.busiest;
  if (rows.length === 0) return h("p", { class: "note" }, "No link carried traffic.");
  const fabric = run.fabricOf;
  const direction = (r) => (fabric.layers[r.layer].lower === fabric.layers[r.layer].upper ? "across" : r.up ? "up" : "down");
  const bar = (share) => h("span", { class: "bar", "aria-hidden": "true" }, h("i", { style: { width: `${Math.min(1, share) * 100}%`, background: shade(share) } }));
  const columns = [
    { title: "Link", value: (r) => r.name, cell: (r) => h("th", { scope: "row", class: "text" }, r.name) },
    { title: "Layer", value: (r) => r.layer, cell: (r) => h("td", { class: "text" }, layerName(fabric, fabric.layers[r.layer])) },
    { title: "Direction", value: direction, cell: (r) => h("td", { class: "text" }, direction(r)) },
    { title: "Utilisation", numeric: true, value: (r) => r.utilisation, cell: (r) => h("td", {}, bar(r.utilisation / TEN_THOUSAND), percent(r.utilisation / TEN_THOUSAND)) },
    { title: "Bytes", numeric: true, value: (r) => r.bytes, cell: (r) => h("td", {}, quantity("B", r.bytes)) },
  ];
  return h("details", {}, h("summary", {}, `The ${rows.length} most utilised links`), sortableTable(`Most utilised links of ${run.label}`, columns, rows));
}
