// Tables: the summary with one row per run, and the comparison with published values.

// Columns are { title, unit, text, value(row), cell(row), numeric, first }; a click on a title sorts, a second one turns the order.
function sortableTable(caption, columns, rows) {
  let order = { column: -1, down: false };
  const body = h("tbody", {});
  const arrow = () => h("i", { "aria-hidden": "true" }, "▾");
  const heads = columns.map((column, i) => {
    const button = h("button", { class: "sort", type: "button", title: column.text || null, onclick: () => sortBy(i) },
      column.numeric && arrow(), column.title, !column.numeric && arrow(), column.unit && h("small", {}, column.unit));
    return h("th", { scope: "col", class: column.numeric ? null : "text" }, button);
  });
  function sortBy(i) {
    order = order.column === i ? { column: i, down: !order.down } : { column: i, down: columns[i].numeric };
    draw();
  }
  function draw() {
    const sorted = [...rows];
    if (order.column >= 0) {
      const { value } = columns[order.column];
      sorted.sort((a, b) => compare(value(a), value(b)) * (order.down ? -1 : 1));
    }
    heads.forEach((head, i) => {
      const active = order.column === i;
      head.setAttribute("aria-sort", active ? (order.down ? "descending" : "ascending") : "none");
      head.querySelector("i").textContent = active && !order.down ? "▴" : "▾";
    });
    body.replaceChildren(...sorted.map((row) => h("tr", {}, columns.map((c) => c.cell(row)))));
  }
  draw();
  return h("div", { class: "scroll" }, h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body));
}

// Absent values come last in ascending order.
function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function summary(model) {
  if (model.runs.length === 0) return section("summary", "Summary", "", h("p", { class: "note" }, "This report contains no runs."));
  const present = [...new Set(model.runs.flatMap((r) => [...r.metric.keys()]))];
  const main = MAIN_METRICS.filter((m) => present.includes(m));
  const others = present.filter((m) => !main.includes(m));
  const holder = h("div", {});
  let all = main.length === 0;
  const button = others.length > 0 && main.length > 0 && h("button", { class: "button", type: "button", "aria-pressed": "false" }, `All ${present.length} metrics`);
  const draw = () => holder.replaceChildren(summaryTable(model, all ? [...main, ...others] : main));
  if (button) {
    button.addEventListener("click", () => {
      all = !all;
      button.setAttribute("aria-pressed", String(all));
      draw();
    });
  }
  draw();
  const lead = model.runs.length > 1 ? "One row per run. Select a column heading to sort; the best value of each column is bold." : "";
  return section("summary", "Summary", lead, button && h("div", { class: "row controls" }, button), holder, expectations(model));
}

function summaryTable(model, metrics) {
  const columns = [{
    title: model.keys.length === 0 ? "Run" : "#", numeric: false, value: (r) => r.index,
    cell: (r) => h("th", { scope: "row", class: "text" }, swatch(r.colour), " ", model.keys.length === 0 ? r.label : r.name || r.index, " ", distrustMark(r)),
  }];
  const everywhere = model.keys.filter((key) => model.runs.every((r) => r.set[key] !== undefined));
  const somewhere = model.keys.filter((key) => !everywhere.includes(key));
  for (const key of everywhere) {
    columns.push({ title: model.names.get(key), text: key, value: (r) => r.set[key] ?? null, cell: (r) => h("td", { class: "text" }, asText(r.set[key])) });
  }
  if (somewhere.length > 0) {
    const text = (r) => somewhere.filter((key) => r.set[key] !== undefined).map((key) => `${model.names.get(key)} ${asText(r.set[key])}`).join(", ");
    columns.push({ title: "settings", text: somewhere.join(", "), value: (r) => text(r) || null, cell: (r) => h("td", { class: "text" }, text(r) || "–") });
  }
  if (new Set(model.runs.map((r) => r.seed)).size > 1 && !model.keys.some((key) => /(^|\.)seed$/.test(key))) {
    columns.push({ title: "seed", numeric: true, value: (r) => r.seed, cell: (r) => h("td", {}, String(r.seed)) });
  }
  columns.push(...metrics.map((name) => metricColumn(model, name)));
  return sortableTable(plural(model.runs.length, "run"), columns, model.runs);
}

function metricColumn(model, name) {
  const metric = metricOf(name);
  const values = model.runs.map((r) => r.metric.get(name)).filter((v) => v !== undefined);
  const scale = scaleFor(metric.kind, Math.max(0, ...values.map(Math.abs)));
  const best = metric.better && new Set(values).size > 1 ? bestRun(model.runs, name)?.metric.get(name) ?? null : null;
  const cell = (run) => {
    const value = run.metric.get(name);
    if (value === undefined) return h("td", {}, "–");
    const share = metric.kind === "share" && value >= 0;
    return h("td", { class: `${best !== null && run.trusted && inScale(metric.kind, value, scale) === inScale(metric.kind, best, scale) ? "best" : ""}${share ? " share" : ""}` }, inScale(metric.kind, value, scale),
      paperNote(run, metric, value, scale), share && h("span", { class: "fill", style: { "--v": Math.min(1, value), color: run.colour }, "aria-hidden": "true" }));
  };
  return { title: metric.label.replace("% of ", "%\u00a0of\u00a0"), unit: metric.label.startsWith("%") ? "" : scale.unit, text: metric.text, numeric: true, value: (r) => r.metric.get(name) ?? null, cell };
}

// What a metric is compared with, below ours; ratios between runs are in the comparison alone.
function paperNote(run, metric, value, scale) {
  const about = run.expect.filter((e) => e.metric === metric.name && e.measured !== null && Math.abs(e.measured - value) <= 1e-6 * Math.abs(value));
  return about.map((e) => {
    const verdict = verdictOf(e, run);
    const show = (number) => inScale(metric.kind, number, scale);
    return h("span", { class: "cell-note", title: `${e.source}, ${isBound(e) ? "" : "within "}${e.within}: ${verdict.text}` },
      isBound(e) ? `${e.kind === "own" ? "own guard" : "paper"} ${boundText(e, show)} ` : `paper ${show(e.paper)} `,
      h("span", { class: `mark ${verdict.kind}`, role: "img", "aria-label": verdict.text }, verdict.mark));
  });
}

// Whether an expectation is one bound or two, and not a published value.
const isBound = (expectation) => (expectation.paper ?? null) === null;

// The bounds of an expectation: "≥ 0.9", "≤ 3", "0.9 to 1.1".
function boundText(expectation, show) {
  const [least, most] = [expectation.at_least ?? null, expectation.at_most ?? null];
  if (most === null) return `≥\u00a0${show(least)}`;
  return least === null ? `≤\u00a0${show(most)}` : `${show(least)} to ${show(most)}`;
}

// How far the measured value is from the published one, or beyond a bound, as a share of either; null if neither says.
function deviation({ measured, paper, at_least: least, at_most: most }) {
  if (measured === null) return null;
  const from = paper ?? (measured < (least ?? -Infinity) ? least : measured > (most ?? Infinity) ? most : null);
  return from === null || from === 0 ? null : measured / from - 1;
}

// Measured values and what they are compared with, unexplained misses first.
function expectations(model) {
  const rows = model.runs.flatMap((run) => run.expect.map((e) => ({ ...e, run, verdict: verdictOf(e, run) })));
  if (rows.length === 0) return null;
  rows.sort((a, b) => a.verdict.severity - b.verdict.severity);
  const value = (row) => (number) => {
    if (number === null || number === undefined) return "–";
    return isRatio(row) ? `${digits(number)}×` : quantity(metricOf(row.metric).kind, number);
  };
  const published = (row) => [value(row)(row.paper), h("span", { class: "cell-note" }, `±\u00a0${row.within.replace("%", "\u00a0%")}`)];
  const several = model.runs.length > 1;
  const [values, bounds] = [rows.some((r) => !isBound(r)), rows.some(isBound)];
  const columns = [
    { title: "Verdict", value: (r) => r.verdict.severity, cell: (r) => h("td", { class: "text" }, h("span", { class: `pill ${r.verdict.kind}` }, r.verdict.text)) },
    { title: "Source", value: (r) => r.source, cell: (r) => h("th", { scope: "row", class: "text wrap wide" }, r.source, r.known && h("span", { class: "cell-note" }, r.known)) },
    several && { title: "Run", value: (r) => r.run.index, cell: (r) => h("td", { class: "text wrap" }, swatch(r.run.colour), " ", r.run.label) },
    { title: "Metric", value: (r) => r.metric, cell: (r) => h("td", { class: isRatio(r) ? "text wrap" : "text", title: r.metric }, metricOf(r.metric).label, isRatio(r) && ", ratio to another run") },
    values && { title: "Published", numeric: true, value: (r) => r.paper ?? null, cell: (r) => h("td", {}, isBound(r) ? "–" : published(r)) },
    bounds && { title: "Bound", text: "of the paper, or an own guard", numeric: true, value: (r) => r.at_least ?? r.at_most ?? null,
      cell: (r) => h("td", {}, isBound(r) ? [boundText(r, value(r)), r.kind === "own" && h("span", { class: "cell-note" }, "own guard")] : "–") },
    { title: "Measured", numeric: true, value: (r) => r.measured, cell: (r) => h("td", { class: "best" }, value(r)(r.measured), r.ci95 > 0 && h("span", { class: "cell-note", title: "half the width of the mean's 95 % confidence interval" }, `± ${value(r)(r.ci95)}`)) },
    { title: "Deviation", numeric: true, value: deviation, cell: (r) => h("td", {}, difference(deviation(r))) },
  ].filter(Boolean);
  return h("div", { id: "paper" }, h("h3", { class: "sub" }, rows.every((r) => r.kind === "own") ? "Own guards" : "Comparison with the paper"), sortableTable(plural(rows.length, "expectation"), columns, rows));
}

// A signed share: "+1.5 %"; without a sign if it rounds to zero.
function difference(share) {
  if (share === null) return "–";
  const text = percent(Math.abs(share));
  return Number.parseFloat(text) === 0 ? text : `${share > 0 ? "+" : "−"}${text}`;
}

// Whether an expectation is about a ratio of this run to a sibling, and not about the metric's own value.
function isRatio({ run, metric, measured }) {
  const own = run.metric.get(metric);
  return own === undefined || measured === null || Math.abs(own - measured) > 1e-6 * Math.abs(own);
}
