// Throughput over time, with the events of the run, and the distribution of completion times. Both follow one legend.

const AVERAGED_BINS = 75;

function throughput(model) {
  const runs = model.runs.filter((r) => r.curves.throughput.values.length > 0);
  const title = "Throughput over time";
  if (runs.length === 0) return null;
  const lead = "Application bits delivered to all hosts per second."
    + (runs.some((r) => r.idealOf) ? " The dashed line is the same flows on an ideal non-blocking switch." : "")
    + (runs.some((r) => r.events.length > 0) ? " Vertical lines mark events." : "")
    + " Hover over the chart, or focus it and use the arrow keys, to read values.";
  const longest = Math.max(...runs.map((r) => r.curves.throughput.edges.at(-1)));
  const width = longest / AVERAGED_BINS;
  const fine = runs.some((r) => r.curves.throughput.values.length > 2 * AVERAGED_BINS);
  let detail = fine ? "averaged" : "sampled";
  const steps = (series, closes) => (series.values.length > 0 ? { ...(detail === "averaged" ? averaged(series, width) : { xs: series.edges, ys: series.values }), closes } : null);
  const options = () => {
    const curves = curvesOf(model, runs, (c) => steps(c.throughput, ended(c)));
    const end = Math.max(...curves.map((c) => c.xs.at(-1)), 1e-12);
    const peak = Math.max(...curves.map((c) => Math.max(...c.ys)), 1);
    const [x, y] = [scaleFor("s", end), scaleFor("bps", peak)];
    return {
      curves,
      marks: marksOf(model, runs, end),
      summary: `${title}. ` + curves.map((c) => `${c.label}: mean ${quantity("bps", meanOf(c))}, peak ${quantity("bps", Math.max(...c.ys))}`).join("; "),
      x: { low: 0, high: end, name: `time (${x.unit})`, format: (v) => short(v / x.factor), read: (v) => `at ${digits(v / x.factor)} ${x.unit}` },
      y: { low: 0, high: peak * 1.06, vertical: true, format: (v) => `${short(v / y.factor)}${v > 0 ? ` ${y.unit}` : ""}`, read: (v) => quantity("bps", v) },
    };
  };
  const details = [{ value: "averaged", label: `${trimmed("s", width)} averages` }, { value: "sampled", label: "all samples" }];
  const picker = fine && choice("Resolution", details, detail, (value) => { detail = value; model.changed(); });
  const head = h("div", { class: "row spread" }, legend(model, runs, "throughput"), picker);
  return section("throughput", title, lead, head, plot(model, options), events(model));
}

// A run that was cut off had throughput to its end: only one whose flows all finished falls to zero.
const ended = (curves) => curves.flows > 0 && curves.fct_s.count >= curves.flows;

// Events of the visible runs, by time: those of one instant under one mark.
function marksOf(model, runs, end) {
  const labels = new Map();
  for (const run of runs.filter((r) => !model.hidden.has(r.index))) {
    for (const { at_s: at, event } of run.events.filter((e) => e.at_s <= end)) labels.set(at, (labels.get(at) ?? new Set()).add(event));
  }
  return [...labels].sort((a, b) => a[0] - b[0]).map(([at, set]) => ({ at, labels: [...set] }));
}

function distribution(model) {
  const runs = model.runs.filter((r) => r.curves.fct_s.values.length > 0);
  const title = "Flow completion times";
  if (runs.length === 0) return null;
  const open = runs.filter((r) => r.curves.flows > r.curves.fct_s.count);
  const lead = "Cumulative distribution: the share of flows that finished within a given time. Curves further left are better."
    + (open.length > 0 ? ` Unfinished flows are left out: ${open.slice(0, 4).map((r) => `${plural(r.curves.flows - r.curves.fct_s.count, "flow")} of ${r.label}`).join(", ")}${open.length > 4 ? ", …" : ""}.` : "");
  const options = () => {
    const curves = curvesOf(model, runs, (c) => c.fct_s.values.length > 0 && { xs: c.fct_s.values, ys: c.fct_s.fractions, from: 0, until: Infinity });
    const all = curves.flatMap((c) => [c.xs[0], c.xs.at(-1)]);
    const positive = curves.flatMap((c) => c.xs).filter((v) => v > 0);
    const [high, least] = [Math.max(...all, 1e-12), positive.length > 0 ? Math.min(...positive) : 1];
    const log = high / least > 50;
    const low = log ? least * 0.9 : 0;
    curves.forEach((c) => (c.until = high * 1.02));
    return {
      curves,
      summary: `${title}. ` + curves.map((c) => `${c.label}: median ${quantity("s", quantile(c, 0.5))}, 99th percentile ${quantity("s", quantile(c, 0.99))}`).join("; "),
      x: { low, high: high * 1.02, log, name: `flow completion time${log ? ", logarithmic" : ""}`, format: (v) => trimmed("s", v), read: (v) => `within ${quantity("s", v)}` },
      y: { low: 0, high: 1, vertical: true, format: (v) => percent(v, 0), read: (v) => `${percent(v)} of flows` },
    };
  };
  return section("fct", title, lead, legend(model, runs, "completion times"), plot(model, options), quantileTable(runs));
}

// Exact means over bins of one width: what was delivered by each edge, read off the finer steps.
function averaged({ edges, values }, width) {
  const end = edges.at(-1);
  const xs = [];
  for (let i = 0; i * width < end * (1 - 1e-9); i += 1) xs.push(edges[0] + i * width);
  xs.push(end);
  const sums = new Array(xs.length - 1).fill(0);
  for (let i = 0, bin = 0; i < values.length; i += 1) {
    while (bin < sums.length - 1 && xs[bin + 1] <= edges[i]) bin += 1;
    for (let b = bin; b < sums.length && xs[b] < edges[i + 1]; b += 1) {
      sums[b] += values[i] * (Math.min(edges[i + 1], xs[b + 1]) - Math.max(edges[i], xs[b]));
    }
  }
  return { xs, ys: sums.map((area, b) => area / (xs[b + 1] - xs[b])) };
}

const short = (v) => Number(v.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 });

// Visible runs, and above them their ideals: one grey line if all share it, else one per run in its colour.
function curvesOf(model, runs, pick) {
  const shown = runs.filter((r) => !model.hidden.has(r.index));
  const curves = [];
  const ideals = new Map();
  for (const run of shown) if (run.idealOf && !ideals.has(run.ideal)) ideals.set(run.ideal, run);
  for (const run of shown) {
    const picked = pick(run.curves);
    if (picked) curves.push({ ...picked, label: run.label, colour: run.colour, run: run.index });
  }
  if (model.idealShown) {
    for (const run of ideals.values()) {
      const picked = pick(run.idealOf);
      const one = ideals.size === 1;
      if (picked) curves.push({ ...picked, label: one ? "ideal switch" : `ideal switch, ${run.label}`, colour: one ? "var(--ink-2)" : run.colour, dashed: true, run: "ideal" });
    }
  }
  if (curves.length === 0) curves.push({ label: "no run selected", xs: [0, 1], ys: [0], colour: "none", run: "none" });
  return curves;
}

function plot(model, options) {
  const figure = h("figure", {});
  model.listeners.push(responsive(figure, (width) => lineChart(options(), width)));
  return figure;
}

function legend(model, runs, what) {
  const list = h("ul", { class: "legend", "aria-label": `Curves shown in ${what}` });
  const item = (pressed, mark, label, id, toggle) => {
    const light = (on) => {
      const svg = list.parentElement.querySelector("svg.plot");
      svg?.classList.toggle("dim", on);
      svg?.querySelectorAll(".curve").forEach((c) => c.classList.toggle("lit", on && c.dataset.run === String(id)));
    };
    return h("li", {}, h("button", { type: "button", "aria-pressed": String(pressed), "data-key": id, onclick: toggle, onpointerenter: () => pressed && light(true), onpointerleave: () => light(false) }, mark, h("span", {}, label)));
  };
  const draw = () => {
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const items = runs.map((r) => item(!model.hidden.has(r.index), swatch(r.colour, "line"), r.label, r.index, () => {
      if (!model.hidden.delete(r.index)) model.hidden.add(r.index);
      model.changed();
    }));
    if (runs.some((r) => r.idealOf)) {
      items.push(item(model.idealShown, swatch("var(--ink-2)", "dash"), "ideal switch", "ideal", () => {
        model.idealShown = !model.idealShown;
        model.changed();
      }));
    }
    if (runs.length > 4) {
      const none = runs.every((r) => model.hidden.has(r.index));
      items.push(item(true, "", none || model.hidden.size > 0 ? "Show all" : "Hide all", "all", () => {
        if (model.hidden.size > 0) model.hidden.clear();
        else runs.forEach((r) => model.hidden.add(r.index));
        model.changed();
      }));
    }
    list.replaceChildren(...items);
    if (focused !== null) list.querySelector(`[data-key="${focused}"]`)?.focus();
  };
  draw();
  model.listeners.push(draw);
  return list;
}

function meanOf(curve) {
  let area = 0;
  for (let i = 0; i < curve.ys.length; i += 1) area += curve.ys[i] * (curve.xs[i + 1] - curve.xs[i]);
  return area / (curve.xs.at(-1) - curve.xs[0] || 1);
}

// The smallest value that at least this share does not exceed.
function quantile(curve, share) {
  const i = curve.ys.findIndex((y) => y >= share - 1e-9);
  return curve.xs[i < 0 ? curve.xs.length - 1 : i];
}

function quantileTable(runs) {
  const shares = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1];
  const of = (r, p) => quantile({ xs: r.curves.fct_s.values, ys: r.curves.fct_s.fractions }, p);
  const columns = [{ title: "Run", value: (r) => r.index, cell: (r) => h("th", { scope: "row", class: "text" }, swatch(r.colour), " ", r.label) },
    ...shares.map((p) => ({ title: p === 1 ? "maximum" : `p${p * 100}`, numeric: true, value: (r) => of(r, p), cell: (r) => h("td", {}, quantity("s", of(r, p))) })),
    { title: "Finished", numeric: true, value: (r) => r.curves.fct_s.count, cell: (r) => h("td", {}, `${r.curves.fct_s.count.toLocaleString("en-US")} of ${r.curves.flows.toLocaleString("en-US")}`) }];
  return h("details", {}, h("summary", {}, "Percentiles as a table"), sortableTable("Flow completion times", columns, runs));
}
