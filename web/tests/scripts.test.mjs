// The parts of the page's scripts that compute: `node --test web/tests/`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const NAMES = ["metricOf", "scaleFor", "digits", "quantity", "trimmed", "percent", "ticks", "logTicks", "labelOf", "varyingKeys", "shortNames",
  "tellApart", "stepPath", "valueAt", "axis", "averaged", "meanOf", "quantile", "compare", "verdictOf", "distance", "podBlocks"];
const FILES = ["format", "dom", "model", "chart", "overview", "tables", "bounds", "curves", "drawing", "links", "packets"];
const source = FILES.map((name) => readFileSync(new URL(`../js/${name}.js`, import.meta.url), "utf8")).join("\n");
const page = new Function(`"use strict";\n${source}\nreturn { ${NAMES.join(", ")} };`)();
const plain = (text) => text.replaceAll("\u00a0", " ");

test("quantities read as the field writes them", () => {
  const cases = [["bps", 14.2e9, "14.2 Gbps"], ["bps", 0, "0 bps"], ["s", 0.0123, "12.3 ms"], ["s", 395, "395 s"], ["B", 1.5e12, "1.50 TB"],
    ["share", 0.96, "96.0 %"], ["count", 1234567, "1,234,567"], ["", 0.995, "0.995"], ["", 0.99962, "1.00"], ["bps", NaN, "–"], ["s", null, "–"]];
  for (const [kind, value, text] of cases) assert.equal(plain(page.quantity(kind, value)), text);
});

test("zeros after the point can go", () => {
  const cases = [["bps", 1e9, "1 Gbps"], ["bps", 2.5e9, "2.5 Gbps"], ["s", 20, "20 s"], ["s", 100, "100 s"], ["s", 0, "0 s"], ["count", 1000, "1,000"]];
  for (const [kind, value, text] of cases) assert.equal(plain(page.trimmed(kind, value)), text);
});

test("metrics that the page does not know get a unit by their name", () => {
  const metric = page.metricOf("queue_wait_s");
  assert.deepEqual([metric.label, metric.kind], ["queue wait", "s"]);
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
  page.tellApart(alike);
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

test("the nearest point of a broken line", () => {
  assert.equal(page.distance([[0, 0], [10, 0], [10, 10]], [13, 4]), 3);
});
