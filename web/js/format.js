// Numbers with units, and the names of metrics.

const MAIN_METRICS = ["goodput_bps", "optimal_fraction", "goodput_fraction", "bisection_fraction", "loss_fraction", "completion_s", "fct_p50_s", "fct_p99_s",
  "jain_flows", "latency_mean_s", "latency_p99_s", "requests_per_s", "lookups_per_s", "updates_per_s", "efficiency", "drops", "retransmits",
  "reconverge_s", "restore_s", "outage_s"];

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// A metric's name on the page, its unit, and which direction is better. METRICS is metrics.json; services and kinds of faults follow a dot.
function metricOf(name) {
  const [base, part] = name.split(".");
  const known = METRICS[base];
  if (!known) return { name, label: capital(base.replace(/_(bps|per_s|s|bytes|fraction)$/, "").replaceAll("_", " ")), kind: kindOf(base), better: "", text: "" };
  const { label, unit, better, about } = known;
  if (!part) return { name, label: capital(label), kind: unit, better, text: about };
  const isFault = base === "outage_s" || base === "gap_s";
  const text = isFault ? `${about} Only failures of this kind: ${part}.` : `${about} Only the service ${part}, over its own time.`;
  return { name, label: `${capital(label)}, ${part}`, kind: unit, better, text };
}

// The unit of a metric that is not in METRICS, by its suffix; a rate ends in `_per_s` and is not a time.
function kindOf(name) {
  const rate = name.match(/([a-z]+)_per_s$/);
  if (rate) return `${rate[1]}/s`;
  return /_bps$/.test(name) ? "bps" : /_s$/.test(name) ? "s" : /_bytes$/.test(name) ? "B" : /_fraction$/.test(name) ? "share" : "";
}

const SCALES = {
  bps: [[1e12, "Tbps"], [1e9, "Gbps"], [1e6, "Mbps"], [1e3, "kbps"], [1, "bps"]],
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  B: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  share: [[0.01, "%"]],
  count: [[1, ""]],
  "": [[1, ""]],
};

// Events per second, in thousands and millions: "13.2 M requests/s".
const rateScales = (unit) => [[1e9, `G\u00a0${unit}`], [1e6, `M\u00a0${unit}`], [1e3, `k\u00a0${unit}`], [1, unit]];

// The unit in which the largest of some values reads well: { factor, unit }.
function scaleFor(kind, largest) {
  const steps = SCALES[kind] ?? (kind.endsWith("/s") ? rateScales(kind) : SCALES[""]);
  const base = steps.find(([f]) => f === 1) ?? steps[0];
  const [factor, unit] = largest === 0 ? base : (steps.find(([f]) => Math.abs(largest) >= f * 0.9995) ?? steps.at(-1));
  return { factor, unit };
}

// So many significant digits, thousands grouped, never an exponent for everyday sizes.
function digits(value, significant = 3) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(significant)))));
  if (size < -6) return value.toExponential(significant - 1);
  const places = Math.max(0, significant - 1 - size);
  return Number(value.toFixed(Math.min(places, 12))).toLocaleString("en-US", { minimumFractionDigits: Math.min(places, 3), maximumFractionDigits: 12 });
}

// A value in a given scale, without the unit.
function inScale(kind, value, scale) {
  const scaled = value / scale.factor;
  if (kind === "share") return scaled.toFixed(1);
  if (kind === "count") return Math.round(scaled).toLocaleString("en-US");
  return digits(scaled);
}

// A value with its own unit: "14.2 Gbps", "96.0 %".
function quantity(kind, value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const scale = scaleFor(kind, value);
  return scale.unit ? `${inScale(kind, value, scale)}\u00a0${scale.unit}` : inScale(kind, value, scale);
}

// Without zeros after the point: "1 Gbps".
const trimmed = (kind, value) => quantity(kind, value).replace(/(\.\d*?)0+(?=\u00a0|$)/, "$1").replace(/\.(?=\u00a0|$)/, "");
const percent = (share, places = 1) => `${(share * 100).toFixed(places)}\u00a0%`;
const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en-US")}\u00a0${count === 1 ? one : many}`;

// Round numbers that span a range: about `count` of them.
function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * 0.999);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) list.push(Number((i * step).toPrecision(12)));
  return list;
}

// Powers of ten, with 2 and 5 between them where there is room.
function logTicks(low, high, count) {
  const decades = Math.log10(high / low);
  const between = decades * 3 <= count ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / count));
  const list = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p += 1) {
    if (between.length === 1 && p % every !== 0) continue;
    for (const m of between) {
      const value = Number(`${m}e${p}`);
      if (value >= low * 0.999 && value <= high * 1.001) list.push(value);
    }
  }
  return list;
}
