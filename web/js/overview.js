// The head of the page: what was run, and the few figures to read first.

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
  const button = h("button", { class: "button", type: "button", title: "Theme: automatic, light or dark" }, `Theme: ${name()}`);
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(name()) + 1) % order.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    button.textContent = `Theme: ${name()}`;
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
    if (most > 0) items.push([least === most ? plural(most, "flow") : `${least.toLocaleString("en-US")} to ${plural(most, "flow")}`, " per run"]);
    const repeated = Math.max(...model.runs.map((r) => 1 + (r.other_seeds ?? []).length));
    if (repeated > 1) items.push([`means of ${repeated} seeds`, `; curves, links and flows are those of seed ${seeds.join(", ")}`]);
    else items.push([seeds.length === 1 ? `seed ${seeds[0]}` : plural(seeds.length, "seed"), ""]);
  }
  if (model.keys.length > 0) items.push(["sweep: ", model.keys.join(", ")]);
  fixed.forEach((value, key) => items.push([`${key} = `, value]));
  return items.length > 0 && h("ul", { class: "facts" }, items.map(([strong, rest]) => h("li", {}, h("b", {}, strong), rest)));
}

const stat = (term, value, ...notes) => h("div", { class: "stat" }, h("dt", {}, term), h("dd", {}, value), notes);

function cards(model) {
  const several = model.runs.length > 1;
  const of = (run) => several && h("p", {}, swatch(run.colour), run.label);
  const split = (text) => {
    const [number, ...unit] = text.split("\u00a0");
    return unit.length > 0 ? [number, " ", h("small", {}, unit.join("\u00a0"))] : number;
  };
  const list = [];
  const best = (name) => bestRun(model.runs, name);
  const goodput = best("goodput_bps");
  if (goodput) list.push(stat(several ? "Highest goodput" : "Goodput", split(quantity("bps", goodput.metric.get("goodput_bps"))), of(goodput)));
  const nearest = best("optimal_fraction") ?? best("goodput_fraction");
  if (nearest) {
    const name = nearest.metric.has("optimal_fraction") ? "optimal_fraction" : "goodput_fraction";
    const what = name === "optimal_fraction" ? "% of ideal switch" : "% of NIC limit";
    list.push(stat(several ? `Highest ${what}` : capital(what), split(percent(nearest.metric.get(name))), of(nearest)));
  }
  const completion = best("fct_p99_s") ? "fct_p99_s" : "completion_s";
  const quickest = best(completion);
  const term = completion === "fct_p99_s" ? "99th percentile FCT" : "Completion time";
  if (quickest) list.push(stat(several ? `Shortest ${term.replace(/^C/, "c")}` : term, split(quantity("s", quickest.metric.get(completion))), of(quickest)));
  const answered = best("latency_mean_s");
  if (answered) list.push(stat(several ? "Lowest mean latency" : "Mean latency", split(quantity("s", answered.metric.get("latency_mean_s"))), of(answered)));
  const verdicts = (own) => model.runs.flatMap((r) => r.expect.filter((e) => (e.kind === "own") === own).map((e) => verdictOf(e, r)));
  list.push(...[verdictStat(model, "Published results reproduced", "all reproduced", verdicts(false)), verdictStat(model, "Own guards met", "all met", verdicts(true))].filter(Boolean));
  return list;
}

// How many of some expectations are met, and what became of the others; null if there are none.
function verdictStat(model, title, whole, verdicts) {
  if (verdicts.length === 0) return null;
  const count = (kind) => verdicts.filter((v) => v.kind === kind).length;
  const [ok, miss, known, untrusted] = [count("ok"), count("miss"), count("known"), count("untrusted")];
  const distrust = model.runs.every((r) => r.trusted) ? "not comparable" : model.runs.every((r) => r.comparable) ? "UNTRUSTED" : "UNTRUSTED or not comparable";
  const notes = [miss > 0 && h("span", { class: "pill miss" }, `${miss} missed`), known > 0 && h("span", { class: "pill known" }, `${known} known miss${known > 1 ? "es" : ""}`),
    untrusted > 0 && h("span", { class: "pill untrusted" }, `${untrusted} ${distrust}`), ok === verdicts.length && h("span", { class: "pill ok" }, whole)];
  return stat(title, [String(ok), h("small", {}, ` of ${verdicts.length}`)], h("p", {}, notes.filter(Boolean).flatMap((n, i) => (i ? [" ", n] : [n]))));
}
