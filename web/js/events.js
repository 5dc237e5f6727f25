// Failures, repairs and moves: what happened when, and in a lab what flows noticed of it.

function events(model) {
  const measured = model.runs.flatMap((run) => (run.faults ?? []).map((fault) => ({ ...fault, runs: [run] })));
  const rows = measured.length > 0 ? measured : scheduled(model.runs);
  if (rows.length === 0) return null;
  const time = (title, text, of) => ({ title, text, numeric: true, value: of, cell: (r) => h("td", {}, quantity("s", of(r))) });
  const columns = [time("Time", "From the start of the run", (r) => r.at_s),
    { title: "Event", value: (r) => r.event, cell: (r) => h("th", { scope: "row", class: "text" }, r.event) }];
  if (measured.length > 0) {
    columns.push({ title: "Flows", text: "Flows that the event could affect", numeric: true, value: (r) => r.flows, cell: (r) => h("td", {}, quantity("count", r.flows)) },
      time("Longest outage", "Longest time, from the event on, that one of these flows received nothing", (r) => r.silent_s ?? null));
    if (rows.some((r) => r.gap_s !== undefined)) columns.push(time("Datagram outage", "The same for small datagrams, which do not back off as TCP does", (r) => r.gap_s ?? null));
  }
  if (model.runs.length > 1) {
    const all = (r) => r.runs.length === model.runs.length;
    columns.push({ title: "Run", value: (r) => r.runs[0].index, cell: (r) => h("td", { class: "text wrap" }, all(r) ? "all runs" : r.runs.flatMap((run, i) => [i > 0 && ", ", swatch(run.colour), " ", run.label])) });
  }
  return h("div", { id: "events" }, h("h3", { class: "sub" }, "Events"), sortableTable(measured.length > 0 ? "Failures, repairs and moves, and the outage of flows" : "Scheduled failures, repairs and moves", columns, rows));
}

// The scheduled events of all runs, each once, with the runs that had it.
function scheduled(runs) {
  const rows = new Map();
  for (const run of runs) {
    for (const { at_s, event } of run.events) {
      const key = `${at_s} ${event}`;
      if (!rows.has(key)) rows.set(key, { at_s, event, runs: [] });
      rows.get(key).runs.push(run);
    }
  }
  return [...rows.values()].sort((a, b) => a.at_s - b.at_s);
}
