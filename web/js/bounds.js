// How far each run is from the best possible: a bar within the bounds that no scheduler can pass.

const SHOWN_AT_FIRST = 24;

function bounds(model) {
  const runs = model.runs.filter((r) => r.bounds.nic_bps || r.bounds.switch_bps || r.bounds.optimum_bps);
  const lead = "The bar is what the run carried. It stands inside what the same flows could get at best: from the network cards alone, "
    + "from one non-blocking switch in place of the fabric, and from this fabric if every flow could be split over all paths.";
  if (runs.length === 0) return section("bounds", "Distance from the best possible", "", h("p", { class: "note" }, "No bound is known for these runs."));
  const largest = runs.map((r) => Math.max(r.bounds.measured_bps, r.bounds.nic_bps ?? 0, r.bounds.switch_bps ?? 0, r.bounds.optimum_bps ?? 0));
  const alike = Math.max(...largest) <= 4 * Math.min(...largest);
  const holder = h("div", {});
  let scale = alike ? "absolute" : "relative";
  let all = false;
  const draw = () => holder.replaceChildren(boundsGrid(all ? runs : runs.slice(0, SHOWN_AT_FIRST), scale), all || runs.length <= SHOWN_AT_FIRST ? "" : more());
  const more = () => h("button", { class: "button", type: "button", onclick: () => { all = true; draw(); } }, `Show all ${runs.length} runs`);
  const scales = [{ value: "absolute", label: "Bits per second" }, { value: "relative", label: "Share of the largest bound" }];
  const picker = choice("Scale", scales, scale, (value) => { scale = value; draw(); });
  draw();
  return section("bounds", "Distance from the best possible", lead, h("div", { class: "row spread controls" }, keys(runs), runs.length > 1 && picker), holder);
}

function keys(runs) {
  const any = (name) => runs.some((r) => r.bounds[name]);
  const key = (kind, text) => h("li", {}, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), text);
  return h("ul", { class: "keys", style: { margin: 0 } }, key("measured", "measured"), any("nic_bps") && key("nic", "NIC-limited bound"),
    any("switch_bps") && key("switch", "non-blocking switch"), any("optimum_bps") && key("optimum", "splittable optimum"));
}

// The columns of shares: those of bounds that some run has.
const SHARES = [["nic_bps", "of the NIC bound"], ["switch_bps", "of non-blocking"], ["optimum_bps", "of the optimum"]];

function boundsGrid(runs, scaling) {
  const cap = (r) => Math.max(r.bounds.measured_bps, r.bounds.nic_bps ?? 0, r.bounds.switch_bps ?? 0, r.bounds.optimum_bps ?? 0) || 1;
  const overall = Math.max(...runs.map(cap));
  const full = (r) => (scaling === "absolute" ? overall : cap(r));
  const shares = SHARES.filter(([bound]) => runs.some((r) => r.bounds[bound]));
  const heading = (text) => h("div", { role: "columnheader", class: text ? null : "blank" }, text);
  const head = h("div", { role: "row", class: "head" }, ["", "", ...shares.map(([, of]) => of)].map(heading));
  const rows = runs.map((run) => boundsRow(run, full(run), shares));
  const blanks = shares.map(() => h("div", { class: "blank" }));
  const axisRow = h("div", { "aria-hidden": "true", style: { display: "contents" } }, h("div", { class: "blank" }), scaleRow(scaling, overall), blanks);
  return h("div", { class: "bounds", role: "table", "aria-label": "Goodput of each run beside its bounds", style: { "--shares": shares.length } }, head, rows, axisRow);
}

function boundsRow(run, full, shares) {
  const { measured_bps, nic_bps, switch_bps, optimum_bps } = run.bounds;
  const at = (bps) => `${((bps / full) * 100).toFixed(2)}%`;
  const share = ([bound, of]) => h("div", { role: "cell", class: "num", "data-of": of }, run.bounds[bound] ? h("b", {}, percent(measured_bps / run.bounds[bound])) : "–");
  const part = (kind, bps) => bps && h("div", { class: kind, style: kind === "optimum" ? { left: at(bps) } : { width: at(bps) } });
  const bar = h("div", { class: "bullet", "aria-hidden": "true", style: { color: run.colour } }, part("nic", nic_bps), part("switch", switch_bps),
    part("optimum", optimum_bps), part("measured", measured_bps));
  const show = (event) => tip.show(event.clientX, event.clientY, run.label, [
    { label: "measured", value: quantity("bps", measured_bps), colour: run.colour, shape: "" },
    ...[["NIC-limited bound", nic_bps], ["non-blocking switch", switch_bps], ["splittable optimum", optimum_bps]].filter(([, v]) => v).map(([label, v]) => ({ label, value: quantity("bps", v) })),
  ]);
  return h("div", { role: "row" },
    h("div", { role: "rowheader", class: "name" }, run.label, h("span", { class: "cell-note" }, quantity("bps", measured_bps))),
    h("div", { role: "cell", class: "track", onpointermove: show, onpointerleave: () => tip.hide() }, bar),
    shares.map(share));
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
