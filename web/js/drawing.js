// A small fabric in full: tiers as rows, switches as boxes, each cable as two lines coloured by how much they are used.
//
//   [core0]  [core1]          row of the highest tier
//     | \    / |
//   [agg0]  [agg1] | [agg2]   pods side by side, as wide as their widest tier needs
//     ...
//    o o o o o o              hosts

const ROW = { box: 24, gap: 106, hostGap: 86, arch: 130, top: 12, bottom: 30, left: 84, right: 16 };
const SHADES = 20;

const shade = (utilisation) => `var(--h${Math.max(0, Math.min(SHADES, Math.round(utilisation * SHADES)))})`;

// Where every node stands: { x, y, w, h } by node, and the height of it all.
function layOut(fabric, width) {
  const { tiers, pods } = fabric.wiring;
  const top = fabric.tiers.length - 1;
  // Cables inside a tier arch above its row.
  const arched = new Set(fabric.layers.filter((l) => l.lower === l.upper).map((l) => l.lower));
  const above = (tier) => [...arched].filter((t) => t >= tier).length * ROW.arch;
  const rowY = (tier) => ROW.top + ROW.box / 2 + above(tier) + (tier === 0 ? (top - 1) * ROW.gap + ROW.hostGap : (top - tier) * ROW.gap);
  const room = { left: ROW.left, width: width - ROW.left - ROW.right };
  const blocks = podBlocks(tiers, pods, top, room);
  const places = new Array(tiers.length);
  for (let tier = 0; tier <= top; tier += 1) {
    const groups = new Map();
    tiers.forEach((t, node) => {
      if (t !== tier) return;
      const block = pods[node] !== null && blocks.has(pods[node]) ? pods[node] : "all";
      groups.set(block, [...(groups.get(block) ?? []), node]);
    });
    for (const [block, nodes] of groups) {
      const span = block === "all" ? room : blocks.get(block);
      const pitch = span.width / nodes.length;
      const w = tier === 0 ? Math.min(15, Math.max(1.5, pitch * 0.72)) : Math.min(72, Math.max(3, pitch * 0.78));
      nodes.forEach((node, i) => (places[node] = { x: span.left + (i + 0.5) * pitch, y: rowY(tier), w, h: tier === 0 ? Math.max(4, Math.min(15, w)) : ROW.box, pitch }));
    }
  }
  return { places, blocks, rowY, top, height: rowY(0) + ROW.bottom };
}

// Pods beside each other; none if there is only one, or if the roots' tier is all there is.
function podBlocks(tiers, pods, top, room) {
  const widest = new Map();
  const count = new Map();
  tiers.forEach((tier, node) => {
    const pod = pods[node];
    if (pod === null || tier === top) return;
    const key = `${pod}/${tier}`;
    count.set(key, (count.get(key) ?? 0) + (tier === 0 ? 1 : 2.2));
    widest.set(pod, Math.max(widest.get(pod) ?? 0, count.get(key)));
  });
  if (widest.size < 2) return new Map();
  const total = [...widest.values()].reduce((a, b) => a + b, 0);
  const gap = Math.min(18, (room.width * 0.12) / widest.size);
  const unit = (room.width - gap * (widest.size - 1)) / total;
  const blocks = new Map();
  let left = room.left;
  for (const [pod, share] of [...widest].sort((a, b) => a[0] - b[0])) {
    blocks.set(pod, { left, width: share * unit });
    left += share * unit + gap;
  }
  return blocks;
}

// `use(link)` gives a link's utilisation; `read(link)` its rows in the read-out; `shown` is "both", "up", "down" or "busier".
function drawFabric(fabric, width, { use, read, shown, summary }) {
  const { wiring } = fabric;
  const layout = layOut(fabric, width);
  const svg = s("svg", { class: "fabric plot", viewBox: `0 0 ${width} ${layout.height}`, tabindex: 0, role: "img", "aria-label": summary });
  const backdrop = s("g", { "aria-hidden": "true" });
  for (let tier = 0; tier <= layout.top; tier += 1) backdrop.append(s("text", { class: "tier", x: 0, y: layout.rowY(tier) }, fabric.tiers[tier].name));
  const podTop = layout.rowY(Math.max(1, layout.top - 1)) - ROW.box / 2 - 9;
  if (layout.top > 1) for (const b of layout.blocks.values()) backdrop.append(s("rect", { class: "pod", x: b.left - 3, y: podTop, width: b.width + 6, height: layout.rowY(0) + 18 - podTop, rx: 8 }));
  const stroke = wiring.from.length <= 120 ? 2.6 : wiring.from.length <= 500 ? 1.5 : 0.9;
  const wires = wiring.from.flatMap((_, cable) => wiresOf(layout, wiring, cable, shown, stroke));
  const drawn = wires.map((wire) => ({ ...wire, load: Math.max(...wire.links.map(use)) })).sort((a, b) => a.load - b.load);
  const lines = s("g", { "aria-hidden": "true" }, drawn.map((w) => s("path", { class: "wire", d: `M${w.points.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L")}`, stroke: shade(w.load), "stroke-width": stroke })));
  const halo = s("path", { class: "halo", "stroke-width": stroke + 8 });
  svg.append(backdrop, halo, lines, nodesOf(fabric, layout));
  probe(svg, halo, drawn, read);
  return svg;
}

// The lines of a cable: one a direction, side by side; or one for both.
function wiresOf(layout, wiring, cable, shown, stroke) {
  const [a, b] = [wiring.from[cable], wiring.to[cable]];
  const ends = [layout.places[a], layout.places[b]];
  const level = wiring.tiers[a] === wiring.tiers[b];
  const upFirst = wiring.tiers[a] <= wiring.tiers[b];
  const [up, down] = upFirst ? [2 * cable, 2 * cable + 1] : [2 * cable + 1, 2 * cable];
  const middle = level ? arc(ends) : straight(ends);
  if (shown === "busier") return [{ cable, links: [up, down], points: middle }];
  if (shown === "up") return [{ cable, links: level ? [up, down] : [up], points: middle }];
  if (shown === "down") return [{ cable, links: level ? [up, down] : [down], points: middle }];
  const apart = stroke * 0.5 + 0.55;
  return [{ cable, links: [up], points: shifted(middle, -apart) }, { cable, links: [down], points: shifted(middle, apart) }];
}

// From the top of the lower box to the bottom of the upper one, spread along both by where the other end is.
function straight([a, b]) {
  const [low, high] = a.y > b.y ? [a, b] : [b, a];
  const lean = Math.max(-1, Math.min(1, (high.x - low.x) / (4 * Math.max(low.pitch, high.pitch))));
  return [[low.x + lean * low.w * 0.36, low.y - low.h / 2], [high.x - lean * high.w * 0.36, high.y + high.h / 2]];
}

// Above the row, higher the further apart the two switches are.
function arc([a, b]) {
  const rise = Math.min(ROW.arch - 6, 12 + Math.abs(a.x - b.x) * 0.13);
  const y = a.y - a.h / 2;
  const points = [];
  for (let i = 0; i <= 16; i += 1) points.push([a.x + ((b.x - a.x) * i) / 16, y - rise * 4 * (i / 16) * (1 - i / 16)]);
  return points;
}

function shifted(points, by) {
  const [first, last] = [points[0], points.at(-1)];
  const [dx, dy] = [last[0] - first[0], last[1] - first[1]];
  const length = Math.hypot(dx, dy) || 1;
  return points.map(([x, y]) => [x - (dy / length) * by, y + (dx / length) * by]);
}

function nodesOf(fabric, layout) {
  const { names, tiers } = fabric.wiring;
  return s("g", { "aria-hidden": "true" }, layout.places.map((p, node) => {
    const host = tiers[node] === 0;
    const box = s("rect", { class: host ? "host" : "switch", x: p.x - p.w / 2, y: p.y - p.h / 2, width: p.w, height: p.h, rx: host ? 3 : 5 }, s("title", {}, names[node]));
    const number = names[node].match(/\d+$/)?.[0] ?? "";
    const label = [names[node], number].find((text) => text.length * 6.4 + 6 <= p.w && !host) ?? "";
    const below = host && p.pitch >= number.length * 6.4 + 6 ? number : "";
    return [box, label && s("text", { x: p.x, y: p.y + 0.5 }, label), below && s("text", { x: p.x, y: p.y + p.h / 2 + 9, class: "below" }, below)];
  }));
}

// Reads out the wire nearest to the pointer; arrow keys walk from the busiest to the idlest.
function probe(svg, halo, wires, read) {
  let walked = -1;
  const show = (wire, x, y) => {
    halo.setAttribute("d", `M${wire.points.map((p) => p.join(" ")).join("L")}`);
    const { heading, rows } = read(wire.cable);
    tip.show(x, y, heading, rows);
  };
  const hide = () => {
    halo.setAttribute("d", "");
    tip.hide();
  };
  svg.addEventListener("pointermove", (event) => {
    const bounds = svg.getBoundingClientRect();
    const zoom = bounds.width / svg.viewBox.baseVal.width;
    const at = [(event.clientX - bounds.left) / zoom, (event.clientY - bounds.top) / zoom];
    let [best, nearest] = [null, 9];
    for (const wire of wires) {
      const away = distance(wire.points, at);
      if (away <= nearest) [best, nearest] = [wire, away];
    }
    if (best) show(best, event.clientX, event.clientY);
    else hide();
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    walked = (walked + step + wires.length) % wires.length;
    const wire = wires[wires.length - 1 - walked];
    const bounds = svg.getBoundingClientRect();
    const zoom = bounds.width / svg.viewBox.baseVal.width;
    show(wire, bounds.left + ((wire.points[0][0] + wire.points.at(-1)[0]) / 2) * zoom, bounds.top + ((wire.points[0][1] + wire.points.at(-1)[1]) / 2) * zoom);
  });
}

function distance(points, [px, py]) {
  let least = Infinity;
  for (let i = 0; i + 1 < points.length; i += 1) {
    const [[ax, ay], [bx, by]] = [points[i], points[i + 1]];
    const [dx, dy] = [bx - ax, by - ay];
    const t = Math.max(0, Math.min(1, ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy || 1)));
    least = Math.min(least, Math.hypot(px - ax - t * dx, py - ay - t * dy));
  }
  return least;
}
