// Elements from data. Text only ever becomes text nodes, so that no name in a scenario is markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function section(id, title, lead, ...children) {
  const heading = h("h2", { id: `${id}-title` }, title);
  return h("section", { id, "aria-labelledby": `${id}-title` }, heading, lead && h("p", { class: "lead" }, lead), ...children);
}

const swatch = (colour, shape = "") => h("span", { class: `swatch ${shape}`, style: { color: colour }, "aria-hidden": "true" });

// One of a few choices, as a row of radio buttons; of many, as a list.
function choice(label, options, chosen, onchange) {
  const width = options.reduce((sum, o) => sum + o.label.length + 4, 0);
  if (options.length > 8 || width > 110) {
    const list = options.map((o) => h("option", { value: o.value, selected: o.value === chosen }, o.label));
    return h("label", { class: "row" }, h("span", { class: "label" }, label), h("select", { onchange: (e) => onchange(e.target.value) }, list));
  }
  const name = `choice-${(choice.count = (choice.count ?? 0) + 1)}`;
  const radios = options.map((o) => h("label", { title: o.title },
    h("input", { type: "radio", name, value: o.value, checked: o.value === chosen, onchange: () => onchange(o.value) }), o.label));
  return h("fieldset", { class: "segments" }, h("legend", {}, label), radios);
}

// The one read-out that follows the pointer or the keyboard.
const tip = {
  show(x, y, heading, rows) {
    const box = document.getElementById("tip");
    const body = rows.map((r) => h("tr", {}, h("td", { class: "text" }, r.colour && swatch(r.colour, r.shape ?? "line"), r.colour && " ", r.label), h("td", {}, r.value)));
    box.replaceChildren(h("h4", {}, heading), h("table", { role: "presentation" }, h("tbody", {}, body)));
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    const left = x + 16 + width > innerWidth - 8 ? x - 16 - width : x + 16;
    box.style.left = `${Math.max(8, left)}px`;
    box.style.top = `${Math.min(Math.max(8, y - height / 2), innerHeight - height - 8)}px`;
  },
  hide() {
    document.getElementById("tip").hidden = true;
  },
};

// Draws once the page is built and again whenever the width changes; `draw(width)` returns the new content.
const drawings = [];
function responsive(host, draw) {
  let last = 0;
  let frame = 0;
  const redraw = (force) => {
    const width = Math.round(host.clientWidth) || 1100;
    if (!force && width === last) return;
    last = width;
    host.replaceChildren(draw(width));
  };
  // A drawing changes the height that is observed: drawn in the next frame, it is no loop.
  const later = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => redraw(false));
  };
  if ("ResizeObserver" in window) new ResizeObserver(later).observe(host);
  drawings.push(() => redraw(true));
  return () => redraw(true);
}
