// The head of the page: what was run, and the few figures that a hurried reader wants.

const WEAVE = [["M4 7h24M4 16h24M4 25h24", "var(--c0)"], ["M8 3v8M8 13v16M16 3v1M16 6v14M16 22v7M24 3v8M24 13v16", "var(--c1)"]];

function overview(model) {
  const logo = s("svg", { viewBox: "0 0 32 32", "aria-hidden": "true" }, WEAVE.map(([d, stroke]) => s("path", { d, stroke, fill: "none", "stroke-width": 3.4, "stroke-linecap": "round" })));
  return [
    h("div", { class: "brand" }, logo, h("span", {}, h("b", {}, "Weft"), " · report of a ", model.runs.length > 1 ? "sweep" : "run"), h("span", { class: "grow" }), themeButton()),
    h("h1", {}, model.title),
    fabricLines(model),
    facts(model),
    model.runs.length > 0 && h("dl", { class: "cards" }, cards(model)),
  ];
}

function themeButton() {
  const order = ["auto", "light", "dark"];
  const root = document.documentElement;
  const fromAddress = location.hash.slice(1);
  if (order.includes(fromAddress) && fromAddress !== "auto") root.dataset.theme = fromAddress;
  const name = () => root.dataset.theme ?? "auto";
  const button = h("button", { class: "button", type: "button", title: "Colours: as the system says, light, or dark" }, `Colours: ${name()}`);
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(name()) + 1) % order.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    button.textContent = `Colours: ${name()}`;
  });
  return button;
}

function fabricLines(model) {
  const line = (f) => h("p", { class: "fabrics" }, h("b", {}, f.title), ` · ${plural(f.hosts, "host")} · ${plural(f.switches, "switch", "switches")} · ${plural(f.cables, "cable")}`);
  const shown = model.fabrics.slice(0, 4).map(line);
  const more = model.fabrics.length - shown.length;
  return [shown, more > 0 && h("p", { class: "fabrics" }, `and ${plural(more, "more fabric")}`)];
}

function facts(model) {
  const fixed = new Map();
  const all = new Set(model.runs.flatMap((r) => Object.keys(r.set)));
  for (const key of all) if (!model.keys.includes(key)) fixed.set(key, asText(model.runs[0].set[key]));
  const seeds = [...new Set(model.runs.map((r) => r.seed))];
  const flows = model.runs.map((r) => r.curves.flows);
  const [least, most] = [Math.min(...flows), Math.max(...flows)];
  const items = [];
  if (model.runs.length > 0) {
    items.push([plural(model.runs.length, "run"), ""]);
    if (most > 0) items.push([least === most ? plural(most, "flow") : `${least.toLocaleString("en-US")} to ${plural(most, "flow")}`, " a run"]);
    items.push([seeds.length === 1 ? `seed ${seeds[0]}` : plural(seeds.length, "seed"), ""]);
  }
  if (model.keys.length > 0) items.push(["varied: ", model.keys.join(", ")]);
  fixed.forEach((value, key) => items.push([`${key} = `, value]));
  return items.length > 0 && h("ul", { class: "facts" }, items.map(([strong, rest]) => h("li", {}, h("b", {}, strong), rest)));
}

function cards(model) {
  const several = model.runs.length > 1;
  const of = (run) => several && h("p", {}, swatch(run.colour), run.label);
  const stat = (term, value, ...notes) => h("div", { class: "stat" }, h("dt", {}, term), h("dd", {}, value), notes);
  const split = (text) => {
    const [number, unit] = text.split("\u00a0");
    return unit ? [number, " ", h("small", {}, unit)] : number;
  };
  const list = [];
  const best = (name) => bestRun(model.runs, name);
  const goodput = best("goodput_bps");
  if (goodput) list.push(stat(several ? "Highest goodput" : "Goodput", split(quantity("bps", goodput.metric.get("goodput_bps"))), of(goodput)));
  const nearest = best("optimal_fraction") ?? best("goodput_fraction");
  if (nearest) {
    const name = nearest.metric.has("optimal_fraction") ? "optimal_fraction" : "goodput_fraction";
    const what = name === "optimal_fraction" ? "of the non-blocking switch" : "of the NIC-limited bound";
    list.push(stat(several ? `Highest share ${what}` : `Share ${what}`, split(percent(nearest.metric.get(name))), of(nearest)));
  }
  const completion = best("fct_p99_s") ? "fct_p99_s" : "completion_s";
  const quickest = best(completion);
  const term = completion === "fct_p99_s" ? "99th percentile completion time" : "Completion of all flows";
  if (quickest) list.push(stat(several ? `Shortest ${term.toLowerCase()}` : term, split(quantity("s", quickest.metric.get(completion))), of(quickest)));
  const answered = best("latency_mean_s");
  if (answered) list.push(stat(several ? "Lowest mean latency" : "Mean latency", split(quantity("s", answered.metric.get("latency_mean_s"))), of(answered)));
  const verdicts = model.runs.flatMap((r) => r.expect).map(verdictOf);
  if (verdicts.length > 0) {
    const count = (kind) => verdicts.filter((v) => v.kind === kind).length;
    const [ok, miss, known] = [count("ok"), count("miss"), count("known")];
    const notes = [miss > 0 && h("span", { class: "pill miss" }, `${miss} missed`), known > 0 && h("span", { class: "pill known" }, `${known} missed, cause known`), ok === verdicts.length && h("span", { class: "pill ok" }, "all within")];
    list.push(stat("Paper's values met", [String(ok), h("small", {}, ` of ${verdicts.length}`)], h("p", {}, notes.filter(Boolean).flatMap((n, i) => (i ? [" ", n] : [n])))));
  }
  return list;
}

function bestRun(runs, name) {
  const { better } = metricOf(name);
  const having = runs.filter((r) => r.metric.has(name));
  if (having.length === 0) return null;
  return having.reduce((a, b) => ((better === "low" ? b.metric.get(name) < a.metric.get(name) : b.metric.get(name) > a.metric.get(name)) ? b : a));
}

// The paper's value as a bound: "at least" and "at most" stand before it.
const boundSign = (expectation) => ({ "at least": "≥\u00a0", "at most": "≤\u00a0" })[expectation.within] ?? "";

function verdictOf(expectation) {
  if (expectation.ok) return { kind: "ok", text: "OK", mark: "✓" };
  return expectation.known ? { kind: "known", text: "Known miss", mark: "≠" } : { kind: "miss", text: "MISS", mark: "✗" };
}
