// Reads the data and builds the page. What goes wrong is shown on the page, and said in `data-error` of the root element.

function fail(error) {
  const root = document.documentElement;
  root.dataset.error = String(error?.stack ?? error);
  document.getElementById("report").prepend(h("section", { class: "failed", role: "alert" }, h("h2", {}, "A part of this report could not be drawn"), h("p", {}, String(error))));
}

function glossary(model) {
  const names = [...new Set(model.runs.flatMap((r) => [...r.metric.keys()]))].map(metricOf).filter((m) => m.text);
  if (names.length === 0) return null;
  const words = [...names.map((m) => [m.label, m.name, m.text]),
    ["Non-blocking switch", "", "The same flows on one switch that never drops: only the network cards limit them."],
    ["NIC-limited bound", "", "What the network cards of the active senders and receivers could carry, whichever is less."],
    ["Splittable optimum", "", "The most that this fabric could carry if each flow could be spread over all of its paths."]];
  const list = words.map(([label, name, text]) => [h("dt", {}, label, name && h("code", { class: "cell-note" }, name)), h("dd", {}, text)]);
  return section("words", "What the words mean", "", h("details", { open: false }, h("summary", {}, `${words.length} terms`), h("dl", {}, list)));
}

function build() {
  const model = buildModel(JSON.parse(document.getElementById("weft-data").textContent));
  const page = document.getElementById("report");
  document.getElementById("top").append(...[overview(model)].flat(Infinity).filter(Boolean));
  const parts = model.runs.length === 0 ? [summary] : [summary, bounds, throughput, distribution, packets, links, glossary];
  for (const part of parts) {
    try {
      const built = part(model);
      if (built) page.append(built);
    } catch (error) {
      fail(error);
    }
  }
  drawings.forEach((draw) => draw());
  document.getElementById("bottom").append(h("p", {}, "Made by Weft. All of this page is in this one file; the full results stand beside it as summary.json and Parquet files."));
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => (d.open = true)));
}

addEventListener("error", (event) => fail(event.error ?? event.message));
try {
  build();
  document.documentElement.dataset.ready = "true";
} catch (error) {
  fail(error);
}
