// Tables: the summary with a row a run, and the paper's values beside ours.

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
  if (model.runs.length === 0) return section("summary", "Summary", "", h("p", { class: "note" }, "There are no runs in this report."));
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
  const lead = model.runs.length > 1 ? "A row for each run of the sweep. Select a column's title to sort by it; the best value of a column is in bold." : "";
  return section("summary", "Summary", lead, button && h("div", { class: "row controls" }, button), holder, faults(model), expectations(model));
}

function summaryTable(model, metrics) {
  const columns = [{
    title: model.keys.length === 0 ? "Run" : "#", numeric: false, value: (r) => r.index,
    cell: (r) => h("th", { scope: "row", class: "text" }, swatch(r.colour), " ", model.keys.length === 0 ? r.label : r.name || r.index),
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
  return sortableTable(`Metrics of ${plural(model.runs.length, "run")}`, columns, model.runs);
}

function metricColumn(model, name) {
  const metric = metricOf(name);
  const values = model.runs.map((r) => r.metric.get(name)).filter((v) => v !== undefined);
  const scale = scaleFor(metric.kind, Math.max(0, ...values.map(Math.abs)));
  const best = metric.better && new Set(values).size > 1 ? (metric.better === "low" ? Math.min(...values) : Math.max(...values)) : null;
  const cell = (run) => {
    const value = run.metric.get(name);
    if (value === undefined) return h("td", {}, "–");
    const share = metric.kind === "share" && value >= 0;
    return h("td", { class: `${best !== null && inScale(metric.kind, value, scale) === inScale(metric.kind, best, scale) ? "best" : ""}${share ? " share" : ""}` }, inScale(metric.kind, value, scale),
      paperNote(run, metric, value, scale), share && h("span", { class: "fill", style: { "--v": Math.min(1, value), color: run.colour }, "aria-hidden": "true" }));
  };
  return { title: metric.label, unit: scale.unit, text: metric.text, numeric: true, value: (r) => r.metric.get(name) ?? null, cell };
}

// Beside a metric stands what the paper says of that very value; ratios between runs have the table below to themselves.
function paperNote(run, metric, value, scale) {
  const about = run.expect.filter((e) => e.metric === metric.name && e.measured !== null && Math.abs(e.measured - value) <= 1e-6 * Math.abs(value));
  return about.map((e) => {
    const verdict = verdictOf(e);
    return h("span", { class: "cell-note", title: `${e.source}, within ${e.within}: ${verdict.text}` },
      `paper ${boundSign(e)}${inScale(metric.kind, e.paper, scale)} `, h("span", { class: `mark ${verdict.kind}`, role: "img", "aria-label": verdict.text }, verdict.mark));
  });
}

// What failed, ended and moved in labs, and how long a flow had nothing then.
function faults(model) {
  const rows = model.runs.flatMap((run) => (run.faults ?? []).map((fault) => ({ ...fault, run })));
  if (rows.length === 0) return null;
  const time = (title, text, of) => ({ title, text, numeric: true, value: of, cell: (r) => h("td", {}, quantity("s", of(r))) });
  const columns = [
    time("At", "", (r) => r.at_s),
    { title: "Event", value: (r) => r.event, cell: (r) => h("th", { scope: "row", class: "text" }, r.event) },
    { title: "Flows", text: "Flows that it could touch", numeric: true, value: (r) => r.flows, cell: (r) => h("td", {}, quantity("count", r.flows)) },
    time("Longest silence", "The longest time that one of them received nothing from then on", (r) => r.silent_s ?? null),
  ];
  if (model.runs.length > 1) columns.unshift({ title: "Run", value: (r) => r.run.index, cell: (r) => h("td", { class: "text wrap" }, swatch(r.run.colour), " ", r.run.label) });
  if (rows.some((r) => r.gap_s !== undefined)) columns.push(time("Of datagrams", "The same of small datagrams, which wait for nothing after an outage", (r) => r.gap_s ?? null));
  return h("div", { id: "faults" }, h("h3", { class: "sub" }, "What happened meanwhile"), sortableTable("Events, and what flows noticed of them", columns, rows));
}

function expectations(model) {
  const rank = { miss: 0, known: 1, ok: 2 };
  const rows = model.runs.flatMap((run) => run.expect.map((e) => ({ ...e, run, verdict: verdictOf(e) })));
  if (rows.length === 0) return null;
  rows.sort((a, b) => rank[a.verdict.kind] - rank[b.verdict.kind]);
  const value = (row, number) => {
    if (number === null || number === undefined) return "–";
    const own = row.run.metric.get(row.metric);
    const isRatio = own === undefined || row.measured === null || Math.abs(own - row.measured) > 1e-6 * Math.abs(own);
    return isRatio ? digits(number, 4) : quantity(metricOf(row.metric).kind, number);
  };
  const off = (row) => (row.measured === null || row.paper === 0 || boundSign(row) ? null : row.measured / row.paper - 1);
  const columns = [
    { title: "Verdict", value: (r) => rank[r.verdict.kind], cell: (r) => h("td", { class: "text" }, h("span", { class: `pill ${r.verdict.kind}` }, r.verdict.text)) },
    { title: "Source", value: (r) => r.source, cell: (r) => h("th", { scope: "row", class: "text wrap" }, r.source) },
    { title: "Run", value: (r) => r.run.index, cell: (r) => h("td", { class: "text wrap" }, swatch(r.run.colour), " ", r.run.label) },
    { title: "Metric", value: (r) => r.metric, cell: (r) => h("td", { class: "text", title: r.metric }, metricOf(r.metric).label) },
    { title: "Paper", numeric: true, value: (r) => r.paper, cell: (r) => h("td", {}, boundSign(r), value(r, r.paper)) },
    { title: "Measured", numeric: true, value: (r) => r.measured, cell: (r) => h("td", { class: "best" }, value(r, r.measured)) },
    { title: "Off by", numeric: true, value: off, cell: (r) => h("td", {}, off(r) === null ? "–" : `${off(r) > 0 ? "+" : "−"}${percent(Math.abs(off(r)))}`) },
    { title: "Within", value: (r) => r.within, cell: (r) => h("td", { class: "text" }, r.within) },
  ];
  if (rows.some((r) => r.known)) columns.push({ title: "Cause", value: (r) => r.known ?? null, cell: (r) => h("td", { class: "text wrap fine" }, r.known ?? "") });
  return h("div", { id: "paper" }, h("h3", { class: "sub" }, "Beside the paper"), sortableTable("What the paper says, and what we measured", columns, rows));
}
