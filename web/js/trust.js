// Verdicts, and which runs count: a lab on a saturated machine, or unlike the network described, is not trusted, one with changed settings is not comparable.

// Notes above this number are those of a sweep, and say the same.
const NOTES_SHOWN = 6;

const counts = (run) => run.trusted && run.comparable;

// Best of the trusted runs by a metric; null if there is none.
function bestRun(runs, name) {
  const { better } = metricOf(name);
  const having = runs.filter((r) => r.trusted && r.metric.has(name));
  if (having.length === 0) return null;
  return having.reduce((a, b) => ((better === "low" ? b.metric.get(name) < a.metric.get(name) : b.metric.get(name) > a.metric.get(name)) ? b : a));
}

// The verdict of an expectation of a run. Severity orders the table: the most important first.
function verdictOf(expectation, run = { trusted: true, comparable: true }) {
  if (!run.trusted) return { kind: "untrusted", text: "UNTRUSTED", mark: "?", severity: 1 };
  if (!run.comparable) return { kind: "untrusted", text: "Not comparable", mark: "≁", severity: 2 };
  if (expectation.ok) return { kind: "ok", text: "OK", mark: "✓", severity: 4 };
  return expectation.known ? { kind: "known", text: "Known miss", mark: "≠", severity: 3 } : { kind: "miss", text: "MISS", mark: "✗", severity: 0 };
}

// Beside a run's name where its results do not count.
function distrustMark(run) {
  if (counts(run)) return null;
  return h("span", { class: "pill untrusted" }, run.trusted ? "Not comparable" : "UNTRUSTED");
}

// Banners at the head of the report.
function warnings(model) {
  const slow = model.runs.filter((r) => r.distrust.includes("cpu"));
  const starved = model.runs.filter((r) => r.distrust.includes("wait"));
  const unlike = model.runs.filter((r) => r.distrust.includes("queue"));
  const changed = model.runs.filter((r) => !r.comparable);
  const which = (runs) => (runs.length === model.runs.length ? (runs.length === 1 ? "This run" : "All runs") : `${plural(runs.length, "run")} of ${model.runs.length}`);
  const names = (runs) => (runs.length < model.runs.length ? h("p", {}, runs.slice(0, 6).map((r) => r.label).join("; "), runs.length > 6 && "; …") : null);
  const banner = (id, title, runs, ...text) => h("aside", { id, class: "banner", role: "alert" }, h("h2", {}, title), h("p", {}, ...text), names(runs));
  const overrides = [...new Set(changed.flatMap((r) => r.overrides ?? []))];
  const notes = model.runs.flatMap((r) => r.notes);
  const list = [
    notes.length > 0 && h("aside", { id: "notes", class: "banner", role: "note" }, h("h2", {}, notes.length === 1 ? "Note" : "Notes"),
      notes.slice(0, NOTES_SHOWN).map((text) => h("p", {}, capital(text), ".")), notes.length > NOTES_SHOWN && h("p", {}, `and ${notes.length - NOTES_SHOWN} more in summary.json`)),
    slow.length > 0 && banner("untrusted", `UNTRUSTED: ${which(slow)} saturated the CPU`, slow,
      "Less than 10 % of CPU time was idle, so these results reflect this machine and not the network. Lower world.scale, or free the machine, and run again. Verdicts and best values leave them out."),
    starved.length > 0 && banner("starved", `UNTRUSTED: in ${which(starved).replace(/^[AT]/, (c) => c.toLowerCase())} a program waited for a processor`, starved,
      "A program of the lab could run and got no processor for more than 0.5 s, so these results reflect this machine and not the network. summary.json names it (longest_wait). Free the machine, or lower world.scale, and run again. Verdicts and best values leave them out."),
    unlike.length > 0 && banner("unlike", `UNTRUSTED: TCP in ${which(unlike).replace(/^[AT]/, (c) => c.toLowerCase())} differs from that of the network described`, unlike,
      "Full queues last longer than TCP waits for an acknowledgement: rates are divided by world.scale, and world.switch_queue is not. Divide it as well. Verdicts and best values leave them out."),
    changed.length > 0 && banner("not-comparable", `${which(changed)} cannot be compared with the published results`, changed,
      "Settings that the expectations assume were overridden", overrides.length > 0 && ": ", overrides.flatMap((o, i) => [i > 0 && ", ", h("code", {}, o)]), ". Run the scenario without them to compare."),
  ].filter(Boolean);
  return list.length > 0 ? h("div", { class: "banners" }, list) : null;
}
