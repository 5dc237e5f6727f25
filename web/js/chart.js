// A line chart: axes, curves, marks of events, a cross-hair that reads out every curve. Used for throughput and for distributions.
//
// A curve is { label, colour, dashed, xs, ys, run } with ys[i] valid from xs[i] up to xs[i + 1] (a step function).

const PLOT = { height: 330, left: 70, right: 14, top: 14, bottom: 42 };
// Labels of marks: height of a lane, lanes at most, width of a character, in pixels.
const LANE = 16;
const MAX_LANES = 4;
const CHARACTER = 6.3;

function lineChart(options, width) {
  const box = { left: PLOT.left, right: width - PLOT.right };
  const x = axis(options.x, box.left, box.right);
  const placed = placeMarks(options.marks ?? [], x, box);
  const above = placed.lanes * LANE;
  const height = (width < 560 ? 260 : PLOT.height) + above;
  Object.assign(box, { top: PLOT.top + above, bottom: height - PLOT.bottom });
  const y = axis(options.y, box.bottom, box.top);
  const svg = s("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": options.summary });
  svg.append(frame(x, y, box, options, width), drawMarks(placed.marks, box));
  const clip = `clip-${(lineChart.count = (lineChart.count ?? 0) + 1)}`;
  svg.append(s("clipPath", { id: clip }, s("rect", { x: box.left, y: box.top - 4, width: box.right - box.left, height: box.bottom - box.top + 8 })));
  const lines = s("g", { "clip-path": `url(#${clip})` });
  for (const curve of options.curves) {
    lines.append(s("path", { class: `curve${curve.dashed ? " dashed" : ""}`, "data-run": curve.run, stroke: curve.colour, d: stepPath(curve, x, y) }));
  }
  svg.append(lines);
  crossHair(svg, options, x, y, box);
  return svg;
}

// Where marks stand and on which lane their labels are: the first lane with room; a label without room is left out.
function placeMarks(marks, x, box) {
  const ends = [];
  const placed = marks.map((mark) => {
    const at = x.at(mark.at);
    const text = mark.labels.length > 1 ? `${mark.labels[0]} + ${mark.labels.length - 1} more` : mark.labels[0];
    const wide = text.length * CHARACTER + 12;
    const flip = at + wide > box.right;
    const [from, to] = flip ? [at - wide, at] : [at, at + wide];
    let lane = ends.findIndex((end) => end <= from);
    if (lane < 0) lane = ends.length;
    if (lane >= MAX_LANES || from < 0) return { at, text: null, lane: 0, flip };
    ends[lane] = to;
    return { at, text, lane, flip };
  });
  return { marks: placed, lanes: ends.length };
}

function drawMarks(marks, box) {
  return s("g", { class: "marks", "aria-hidden": "true" }, marks.map(({ at, text, lane, flip }) => {
    const y = PLOT.top + lane * LANE;
    return [s("line", { class: "mark-line", x1: at, x2: at, y1: text ? y - 4 : box.top, y2: box.bottom }),
      text && s("text", { class: "mark-text", x: at + (flip ? -5 : 5), y: y + 5, "text-anchor": flip ? "end" : "start" }, text)];
  }));
}

// { at(value), invert(pixel), ticks } for a domain { low, high, log } between two pixels.
function axis(domain, from, to) {
  const t = domain.log ? Math.log10 : (v) => v;
  const [low, high] = [t(domain.low), t(domain.high)];
  const span = high - low || 1;
  const count = Math.max(2, Math.abs(to - from) / (domain.vertical ? 42 : 92));
  return {
    at: (value) => from + ((t(Math.max(value, domain.log ? domain.low : -Infinity)) - low) / span) * (to - from),
    invert: (pixel) => {
      const v = low + ((pixel - from) / (to - from)) * span;
      return domain.log ? 10 ** v : v;
    },
    ticks: domain.log ? logTicks(domain.low, domain.high, count) : ticks(domain.low, domain.high, count),
  };
}

function frame(x, y, box, options, width) {
  const g = s("g", { "aria-hidden": "true" });
  for (const value of y.ticks) {
    const at = Math.round(y.at(value)) + 0.5;
    g.append(s("line", { class: "grid", x1: box.left, x2: box.right, y1: at, y2: at }));
    g.append(s("text", { x: box.left - 8, y: at, "text-anchor": "end", "dominant-baseline": "central" }, options.y.format(value)));
  }
  for (const value of x.ticks) {
    const at = Math.round(x.at(value)) + 0.5;
    g.append(s("line", { class: "base", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 5 }));
    g.append(s("text", { x: at, y: box.bottom + 18, "text-anchor": at > width - 24 ? "end" : "middle" }, options.x.format(value)));
  }
  g.append(s("line", { class: "base", x1: box.left, x2: box.right, y1: box.bottom + 0.5, y2: box.bottom + 0.5 }));
  g.append(s("text", { class: "axis-name", x: box.right, y: box.bottom + 36, "text-anchor": "end" }, options.x.name));
  return g;
}

function stepPath(curve, x, y) {
  const { xs, ys } = curve;
  if (ys.length === 0) return "";
  const at = (value) => value.toFixed(1);
  let d = `M${at(x.at(xs[0]))} ${at(y.at(curve.from ?? ys[0]))}`;
  for (let i = 0; i < ys.length; i += 1) {
    d += `V${at(y.at(ys[i]))}`;
    if (i + 1 < xs.length) d += `H${at(x.at(xs[i + 1]))}`;
  }
  if (curve.until !== undefined) d += curve.until > xs.at(-1) ? `H${at(x.at(curve.until))}` : "";
  if (curve.closes) d += `V${at(y.at(0))}`;
  return d;
}

// The value of a step function; null before it begins or after it ended.
function valueAt(curve, x) {
  const { xs, ys } = curve;
  if (ys.length === 0 || x < xs[0]) return curve.from ?? null;
  if (x > xs.at(-1) && curve.until === undefined) return null;
  let [low, high] = [0, xs.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle - 1;
  }
  return ys[Math.min(low, ys.length - 1)];
}

function crossHair(svg, options, x, y, box) {
  const marks = s("g", { "aria-hidden": "true" });
  svg.append(marks);
  let position = null;
  const show = (pixel) => {
    position = Math.min(box.right, Math.max(box.left, pixel));
    const value = x.invert(position);
    const read = options.curves.map((curve) => ({ curve, y: valueAt(curve, value) })).filter((r) => r.y !== null);
    marks.replaceChildren(s("line", { class: "cross", x1: position, x2: position, y1: box.top, y2: box.bottom }));
    read.forEach((r) => marks.append(s("circle", { class: "dot", cx: position, cy: y.at(r.y), r: 4, fill: r.curve.colour })));
    const rows = read.sort((a, b) => b.y - a.y).slice(0, 12)
      .map((r) => ({ label: r.curve.label, value: options.y.read(r.y), colour: r.curve.colour, shape: r.curve.dashed ? "dash" : "line" }));
    const reach = x.invert(position + 4) - value;
    for (const mark of options.marks ?? []) {
      if (Math.abs(mark.at - value) <= reach) mark.labels.slice(0, 4).forEach((text) => rows.push({ label: text, value: options.x.read(mark.at) }));
    }
    const bounds = svg.getBoundingClientRect();
    const zoom = bounds.width / svg.viewBox.baseVal.width;
    tip.show(bounds.left + position * zoom, bounds.top + box.top * zoom + 70, options.x.read(value), rows);
  };
  const hide = () => {
    position = null;
    marks.replaceChildren();
    tip.hide();
  };
  svg.addEventListener("pointermove", (event) => {
    const bounds = svg.getBoundingClientRect();
    show(((event.clientX - bounds.left) / bounds.width) * svg.viewBox.baseVal.width);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    show((position ?? (step > 0 ? box.left : box.right)) + (step * (box.right - box.left)) / (event.shiftKey ? 10 : 100));
  });
}
