// Achieved vs. optimum: each run's goodput as a bar, and what bounds it.

const SHOWN_AT_FIRST = 24;

// The bounds: their field, their style, their name, and the heading of their column.
const BOUNDS = [
  { field: "nic_bps", kind: "nic", name: "NIC limit", of: "% of NIC limit" },
  { field: "switch_bps", kind: "switch", name: "ideal switch", of: "% of ideal switch" },
  { field: "optimum_bps", kind: "optimum", name: "multipath optimum", of: "% of multipath optimum" },
];

function bounds(model) {
  const runs = model.runs.filter((r) => BOUNDS.some((b) => r.bounds[b.field]));
  if (runs.length === 0) return null;
  const known = BOUNDS.filter((b) => runs.some((r) => r.bounds[b.field]));
  const explained = {
    nic: "the NIC limit (what the network cards of the active hosts can carry)",
    switch: "the ideal switch (the same flows on one non-blocking switch)",
    optimum: "the multipath optimum (this fabric, if every flow could be split over all of its paths)",
  };
  const parts = known.map((b) => explained[b.kind]);
  const lead = `Goodput of each run compared with ${[parts.slice(0, -1).join(", "), parts.at(-1)].filter(Boolean).join(" and ")}.`;
  const largest = runs.map(capOf);
  const alike = Math.max(...largest) <= 4 * Math.min(...largest);
  const holder = h("div", {});
  let scale = alike ? "absolute" : "relative";
  let all = false;
  const draw = () => holder.replaceChildren(boundsGrid(all ? runs : runs.slice(0, SHOWN_AT_FIRST), scale, known), all || runs.length <= SHOWN_AT_FIRST ? "" : more());
  const more = () => h("button", { class: "button", type: "button", onclick: () => { all = true; draw(); } }, `Show all ${runs.length} runs`);
  const scales = [{ value: "absolute", label: "absolute" }, { value: "relative", label: "relative", title: "Each run relative to its largest bound" }];
  const picker = choice("Scale", scales, scale, (value) => { scale = value; draw(); });
  draw();
  return section("bounds", "Achieved vs. optimum", lead, h("div", { class: "row spread controls" }, boundKeys(known), runs.length > 1 && picker), holder);
}

const capOf = (run) => Math.max(run.bounds.measured_bps, ...BOUNDS.map((b) => run.bounds[b.field] ?? 0)) || 1;

function boundKeys(known) {
  const key = (kind, text) => h("li", {}, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), text);
  return h("ul", { class: "keys", style: { margin: 0 } }, key("measured", "goodput"), known.map((b) => key(b.kind, b.name)));
}

function boundsGrid(runs, scaling, known) {
  const overall = Math.max(...runs.map(capOf));
  const full = (r) => (scaling === "absolute" ? overall : capOf(r));
  const heading = (text) => h("div", { role: "columnheader", class: text ? null : "blank" }, text);
  const head = h("div", { role: "row", class: "head" }, ["", "", ...known.map((b) => b.of)].map(heading));
  const rows = runs.map((run) => boundsRow(run, full(run), known));
  const blanks = known.map(() => h("div", { class: "blank" }));
  const axisRow = h("div", { "aria-hidden": "true", style: { display: "contents" } }, h("div", { class: "blank" }), scaleRow(scaling, overall), blanks);
  return h("div", { class: "bounds", role: "table", "aria-label": "Goodput of each run and its bounds", style: { "--shares": known.length } }, head, rows, axisRow);
}

function boundsRow(run, full, known) {
  const { measured_bps } = run.bounds;
  const at = (bps) => `${((bps / full) * 100).toFixed(2)}%`;
  const share = ({ field, of }) => h("div", { role: "cell", class: "num", "data-of": of }, run.bounds[field] ? h("b", {}, percent(measured_bps / run.bounds[field])) : "–");
  const bound = ({ field, kind }) => run.bounds[field] && h("div", { class: kind, style: kind === "optimum" ? { left: at(run.bounds[field]) } : { width: at(run.bounds[field]) } });
  const bar = h("div", { class: "bullet", "aria-hidden": "true", style: { color: run.colour } }, known.map(bound), h("div", { class: "measured", style: { width: at(measured_bps) } }));
  const show = (event) => tip.show(event.clientX, event.clientY, run.label, [
    { label: "goodput", value: quantity("bps", measured_bps), colour: run.colour, shape: "" },
    ...known.filter((b) => run.bounds[b.field]).map((b) => ({ label: b.name, value: quantity("bps", run.bounds[b.field]) })),
  ]);
  return h("div", { role: "row" },
    h("div", { role: "rowheader", class: "name" }, run.label, " ", distrustMark(run), h("span", { class: "cell-note" }, quantity("bps", measured_bps))),
    h("div", { role: "cell", class: "track", onpointermove: show, onpointerleave: () => tip.hide() }, bar),
    known.map(share));
}

function scaleRow(scaling, overall) {
  const marks = scaling === "absolute" ? ticks(0, overall, 5) : [0, 0.25, 0.5, 0.75, 1];
  const most = scaling === "absolute" ? overall : 1;
  const scale = scaleFor("bps", overall);
  const text = (v) => (scaling === "absolute" ? `${digits(v / scale.factor, 2).replace(/\.0+$/, "")}${v > 0 ? `\u00a0${scale.unit}` : ""}` : percent(v, 0));
  const edge = (v) => (v === 0 ? "first" : v > 0.97 * most ? "last" : null);
  const label = (v) => h("span", { class: edge(v), style: { left: `${(v / most) * 100}%` } }, text(v));
  return h("div", { class: "scale track", "aria-hidden": "true" }, marks.map(label));
}
