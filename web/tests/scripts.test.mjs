// The parts of the page's scripts that compute: `node --test web/tests/`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const NAMES = ["metricOf", "scaleFor", "digits", "quantity", "trimmed", "percent", "ticks", "logTicks", "labelOf", "varyingKeys", "shortNames",
  "labelRuns", "stepPath", "valueAt", "axis", "averaged", "meanOf", "quantile", "compare", "verdictOf", "distance", "podBlocks", "ended", "placeMarks", "scheduled", "bestRun", "difference", "responsive"];
const FILES = ["format", "dom", "model", "chart", "trust", "overview", "tables", "bounds", "events", "curves", "drawing", "links", "packets"];
const metrics = readFileSync(new URL("../metrics.json", import.meta.url), "utf8");
const source = `const METRICS = ${metrics};\n` + FILES.map((name) => readFileSync(new URL(`../js/${name}.js`, import.meta.url), "utf8")).join("\n");
const page = new Function(`"use strict";\n${source}\nreturn { ${NAMES.join(", ")} };`)();
const plain = (text) => text.replaceAll("\u00a0", " ");

test("quantities read as the field writes them", () => {
  const cases = [["bps", 14.2e9, "14.2 Gbps"], ["bps", 0, "0 bps"], ["s", 0.0123, "12.3 ms"], ["s", 395, "395 s"], ["B", 1.5e12, "1.50 TB"],
    ["share", 0.96, "96.0 %"], ["count", 1234567, "1,234,567"], ["", 0.995, "0.995"], ["", 0.99962, "1.00"], ["bps", NaN, "–"], ["s", null, "–"]];
  for (const [kind, value, text] of cases) assert.equal(plain(page.quantity(kind, value)), text);
});

test("a rate is not a time", () => {
  const units = ["requests_per_s", "lookups_per_s", "probes_per_s", "fct_p99_s", "goodput_bps.web"].map((name) => page.metricOf(name).kind);
  assert.deepEqual(units, ["requests/s", "lookups/s", "probes/s", "s", "bps"]);
  const cases = [[13151300, "13.2 M requests/s"], [4200, "4.20 k requests/s"], [0, "0 requests/s"], [12, "12.0 requests/s"]];
  for (const [value, text] of cases) assert.equal(plain(page.quantity("requests/s", value)), text);
});

test("zeros after the point can go", () => {
  const cases = [["bps", 1e9, "1 Gbps"], ["bps", 2.5e9, "2.5 Gbps"], ["s", 20, "20 s"], ["s", 100, "100 s"], ["s", 0, "0 s"], ["count", 1000, "1,000"]];
  for (const [kind, value, text] of cases) assert.equal(plain(page.trimmed(kind, value)), text);
});

test("metrics that the page does not know get a unit by their name", () => {
  const metric = page.metricOf("queue_wait_s");
  assert.deepEqual([metric.label, metric.kind], ["Queue wait", "s"]);
});

test("ticks are round and inside the range", () => {
  assert.deepEqual(page.ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(page.ticks(0, 0.7, 3), [0, 0.25, 0.5]);
  assert.deepEqual(page.ticks(3, 3, 5), [3]);
  assert.deepEqual(page.logTicks(0.01, 10, 4), [0.01, 0.1, 1, 10]);
  assert.deepEqual(page.logTicks(1, 10, 10), [1, 2, 5, 10]);
});

test("labels name what varies, and are unique", () => {
  const run = (set, name, seed = 1) => ({ set, name, seed });
  const runs = [run({ "fabric.k": 4, "control.scheduler": "none" }, "000"), run({ "fabric.k": 8, "control.scheduler": "annealing" }, "001")];
  const keys = page.varyingKeys(runs);
  const names = page.shortNames(keys);
  assert.deepEqual(runs.map((r) => page.labelOf(r, keys, names)), ["k 4 · scheduler none", "k 8 · annealing"]);
  const alike = [{ label: "a", seed: 1, name: "0", index: 0 }, { label: "a", seed: 2, name: "1", index: 1 }];
  page.labelRuns(alike);
  assert.deepEqual(alike.map((r) => r.label), ["a · seed 1", "a · seed 2"]);
});

test("averaging conserves the integral", () => {
  const series = { edges: [0, 0.3, 1.1, 1.15, 4.2], values: [5, 1, 40, 2] };
  const area = (xs, ys) => ys.reduce((sum, y, i) => sum + y * (xs[i + 1] - xs[i]), 0);
  const { xs, ys } = page.averaged(series, 1);
  assert.deepEqual(xs, [0, 1, 2, 3, 4, 4.2]);
  assert.ok(Math.abs(area(xs, ys) - area(series.edges, series.values)) < 1e-9);
  assert.ok(Math.abs(ys[0] - (5 * 0.3 + 0.7)) < 1e-9);
});

test("the read-out is the step that holds", () => {
  const curve = { xs: [0, 1, 3], ys: [10, 20] };
  assert.deepEqual([-1, 0, 0.9, 1, 2.9, 3.1].map((x) => page.valueAt(curve, x)), [null, 10, 10, 20, 20, null]);
  const cdf = { xs: [2, 4], ys: [0.5, 1], from: 0, until: 10 };
  assert.deepEqual([1, 2, 3, 4, 9].map((x) => page.valueAt(cdf, x)), [0, 0.5, 0.5, 1, 1]);
  assert.deepEqual([0.01, 0.5, 0.51, 1].map((p) => page.quantile(cdf, p)), [2, 2, 4, 4]);
});

test("an axis maps and maps back, also in logarithms", () => {
  for (const log of [false, true]) {
    const x = page.axis({ low: 0.1, high: 100, log }, 50, 650);
    for (const v of [0.1, 1, 33, 100]) assert.ok(Math.abs(x.invert(x.at(v)) - v) < 1e-9 * v + 1e-9);
  }
});

test("absent values sort last, numbers by size", () => {
  assert.deepEqual([3, null, "k10", 1].sort(page.compare).at(-1), null);
  assert.deepEqual(["k10", "k2"].sort(page.compare), ["k2", "k10"]);
});

test("verdicts", () => {
  assert.deepEqual([{ ok: true }, { ok: false }, { ok: false, known: "cause" }].map((e) => page.verdictOf(e).text), ["OK", "MISS", "Known miss"]);
});

test("a run that does not count has no verdict and is never the best", () => {
  const miss = { ok: false };
  assert.equal(page.verdictOf(miss, { trusted: false, comparable: true }).text, "UNTRUSTED");
  assert.equal(page.verdictOf({ ok: true }, { trusted: true, comparable: false }).text, "Not comparable");
  const run = (goodput, trusted) => ({ trusted, metric: new Map([["goodput_bps", goodput]]) });
  const runs = [run(5, true), run(9, false), run(7, true)];
  assert.equal(page.bestRun(runs, "goodput_bps"), runs[2]);
  assert.equal(page.bestRun([runs[1]], "goodput_bps"), null);
});

test("only a run whose flows all finished falls to zero", () => {
  const curves = (flows, count) => ({ flows, fct_s: { count } });
  assert.deepEqual([curves(3, 3), curves(3, 2), curves(0, 0)].map(page.ended), [true, false, false]);
});

test("labels of events do not overlap, and stay inside the chart", () => {
  const x = page.axis({ low: 0, high: 20 }, 70, 700);
  const marks = Array.from({ length: 40 }, (_, i) => ({ at: i / 2, labels: [`fail link agg${i}-core1`, "and another"] }));
  const { marks: placed, lanes } = page.placeMarks(marks, x, { left: 70, right: 700 });
  assert.equal(placed.length, 40, "every event keeps its line");
  assert.ok(lanes <= 4);
  const labelled = placed.filter((m) => m.text);
  const spans = labelled.map((m) => ({ lane: m.lane, from: m.flip ? m.at - m.text.length * 6.3 : m.at, to: m.flip ? m.at : m.at + m.text.length * 6.3 }));
  assert.ok(labelled.length > 4 && labelled.every((m) => m.text.endsWith("+ 1 more")));
  for (const a of spans) {
    assert.ok(a.from >= 0 && a.to <= 700);
    for (const b of spans) assert.ok(a === b || a.lane !== b.lane || a.to <= b.from || b.to <= a.from, "two labels overlap");
  }
});

test("differences have a sign unless they are zero", () => {
  assert.deepEqual([0.0154, -0.3, -0.0002, null].map((v) => plain(page.difference(v))), ["+1.5 %", "−30.0 %", "0.0 %", "–"]);
});

test("a drawing follows its width in the next frame, and never inside the observer", () => {
  let observed, frame;
  const globals = {
    window: { ResizeObserver: true },
    ResizeObserver: class { constructor(callback) { observed = callback; } observe() {} },
    requestAnimationFrame: (callback) => { frame = callback; return 1; },
    cancelAnimationFrame: () => { frame = null; },
  };
  Object.assign(globalThis, globals);
  const drawn = [];
  const host = { clientWidth: 900, replaceChildren() {} };
  page.responsive(host, (width) => drawn.push(width));
  for (const width of [900, 500, 420]) {
    host.clientWidth = width;
    observed();
  }
  assert.deepEqual(drawn, [], "drawn inside the observer: the browser reports a loop");
  frame();
  assert.deepEqual(drawn, [420], "once, for the last width");
  Object.keys(globals).forEach((name) => delete globalThis[name]);
});

test("an event of several runs is one row", () => {
  const event = { at_s: 5, event: "fail link a-b" };
  const rows = page.scheduled([{ events: [event] }, { events: [event, { at_s: 1, event: "fail switch c" }] }]);
  assert.deepEqual(rows.map((r) => [r.at_s, r.runs.length]), [[1, 1], [5, 2]]);
});

test("no shade of utilisation is black", () => {
  const css = readFileSync(new URL("../report.css", import.meta.url), "utf8");
  const shades = [...css.matchAll(/--h\d+: light-dark\(#(\w{6}), #(\w{6})\)/g)];
  assert.equal(shades.length, 21);
  const light = (hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  for (const [, onLight] of shades) assert.ok(light(onLight) > 60, onLight);
});

test("the nearest point of a broken line", () => {
  assert.equal(page.distance([[0, 0], [10, 0], [10, 10]], [13, 4]), 3);
});
