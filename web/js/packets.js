// Packet-level results: drops by layer and port, and the traced queues and congestion windows.

function packets(model) {
  const runs = model.runs.filter((r) => r.packets);
  if (runs.length === 0) return null;
  let index = runs[0].index;
  const body = h("div", {});
  const draw = () => {
    const run = model.runs[index];
    body.replaceChildren(...[dropTables(run), traceChart(run, "Queues", run.packets.queues, "B", "Bytes queued at a port: the maximum between two points."),
      traceChart(run, "Congestion windows", run.packets.windows, "segments", "Segments that a flow may have in flight.")].flat().filter(Boolean));
  };
  const pick = (value) => { index = Number(value); draw(); };
  const options = runs.map((r) => ({ value: String(r.index), label: r.label }));
  draw();
  return section("packets", "Packets", "Where packets were dropped: by a full queue, or by a failed link.",
    runs.length > 1 && h("div", { class: "row controls" }, choice("Run", options, String(index), pick)), body);
}

function dropTables(run) {
  const { layers, elsewhere, worst } = run.packets;
  const fabric = run.fabricOf;
  const all = layers.flat().reduce((sum, n) => sum + n, elsewhere);
  if (all === 0) return h("p", { class: "note" }, "No packet was dropped.");
  const direction = (layer, up) => (layer.lower === layer.upper ? "across" : up ? "up" : "down");
  const rows = layers.flatMap(([up, down], i) => [[up, true], [down, false]].map(([drops, isUp]) => ({ where: layerName(fabric, fabric.layers[i]), towards: direction(fabric.layers[i], isUp), drops })))
    .concat({ where: "no route, or in flight when a link failed", towards: "", drops: elsewhere }).filter((r) => r.drops > 0);
  const bar = (share) => h("span", { class: "bar", "aria-hidden": "true" }, h("i", { style: { width: `${share * 100}%`, background: run.colour } }));
  const columns = [
    { title: "Layer of the link", value: (r) => r.where, cell: (r) => h("th", { scope: "row", class: "text" }, r.where) },
    { title: "Direction", value: (r) => r.towards, cell: (r) => h("td", { class: "text" }, r.towards) },
    { title: "Dropped", numeric: true, value: (r) => r.drops, cell: (r) => h("td", {}, bar(r.drops / all), r.drops.toLocaleString("en-US")) },
    { title: "Share", numeric: true, value: (r) => r.drops, cell: (r) => h("td", {}, percent(r.drops / all)) },
  ];
  const ports = [
    { title: "Port", value: (r) => r.name, cell: (r) => h("th", { scope: "row", class: "text" }, r.name) },
    { title: "Layer", value: (r) => r.layer, cell: (r) => h("td", { class: "text" }, layerName(fabric, fabric.layers[r.layer])) },
    { title: "Direction", value: (r) => direction(fabric.layers[r.layer], r.up), cell: (r) => h("td", { class: "text" }, direction(fabric.layers[r.layer], r.up)) },
    { title: "Dropped", numeric: true, value: (r) => r.drops, cell: (r) => h("td", {}, r.drops.toLocaleString("en-US")) },
  ];
  return [h("h3", { class: "sub" }, `Dropped packets: ${all.toLocaleString("en-US")}`), sortableTable(`Drops by layer, ${run.label}`, columns, rows),
    worst.length > 0 && h("details", {}, h("summary", {}, `The ${plural(worst.length, "port")} with most drops`), sortableTable(`Ports with most drops, ${run.label}`, ports, worst))];
}

// Traced lines share one chart; each has a colour of its own, whatever the run's.
function traceChart(run, title, lines, unit, lead) {
  if (lines.length === 0) return null;
  // A finished flow has no window: its line ends one sample after its last.
  const until = ({ at_s: at }) => Math.min(run.ended_s, at.at(-1) + (at.length > 1 ? at.at(-1) - at.at(-2) : 0));
  const curves = lines.map((line, i) => ({ label: line.name, colour: colourOf(i), xs: [...line.at_s, until(line)], ys: line.values, run: `${title}-${i}` }));
  const peak = Math.max(...lines.flatMap((l) => l.values), 1);
  const x = scaleFor("s", run.ended_s);
  const y = unit === "B" ? scaleFor("B", peak) : { factor: 1, unit };
  const read = (v) => (unit === "B" ? quantity("B", v) : `${digits(v)} ${unit}`);
  const options = {
    curves,
    summary: `${title}. ${lines.map((l) => `${l.name}: at most ${read(Math.max(...l.values))}`).join("; ")}`,
    x: { low: 0, high: run.ended_s, name: `time (${x.unit})`, format: (v) => short(v / x.factor), read: (v) => `at ${digits(v / x.factor)} ${x.unit}` },
    y: { low: 0, high: peak * 1.06, vertical: true, format: (v) => `${short(v / y.factor)}${v > 0 && unit === "B" ? ` ${y.unit}` : ""}`, read },
  };
  const figure = h("figure", {});
  const draw = responsive(figure, (width) => lineChart(options, width));
  draw();
  const names = h("ul", { class: "legend" }, curves.map((c) => h("li", {}, h("span", {}, swatch(c.colour, "line"), " ", c.label))));
  return [h("h3", { class: "sub" }, title), h("p", { class: "fine" }, lead), names, figure];
}
