// The runs with their labels and colours, and the reader's choices.

const COLOURS = 8;
const FIRST_SHOWN = 8;
// Values that mean nothing without their key.
const AMBIGUOUS = new Set(["none", "true", "false", "inf"]);

function buildModel(data) {
  const keys = varyingKeys(data.runs);
  const names = shortNames(keys);
  const runs = data.runs.map((run, index) => ({
    ...run,
    index,
    colour: colourOf(index),
    events: run.events ?? [],
    trusted: run.trusted ?? true,
    distrust: run.distrust ?? [],
    notes: run.notes ?? [],
    comparable: run.comparable ?? true,
    metric: new Map(run.metrics),
    fabricOf: data.fabrics[run.fabric],
    idealOf: run.ideal === null ? null : data.ideals[run.ideal],
    label: labelOf(run, keys, names),
  }));
  labelRuns(runs);
  return {
    ...data,
    runs,
    keys,
    names,
    hidden: new Set(runs.slice(FIRST_SHOWN).map((r) => r.index)),
    idealShown: new Set(runs.slice(0, FIRST_SHOWN).map((r) => r.ideal)).size <= 2,
    selected: runs.find((r) => r.links.layers.length > 0)?.index ?? 0,
    listeners: [],
    changed() {
      this.listeners.forEach((listener) => listener());
    },
  };
}

// Eight colours, then their mixtures with the background and with the ink.
function colourOf(index) {
  const colour = `var(--c${index % COLOURS})`;
  const round = Math.floor(index / COLOURS) % 3;
  return round === 0 ? colour : `color-mix(in oklab, ${colour} 55%, var(--${round === 1 ? "page" : "ink"}))`;
}

const asText = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : String(value ?? "–"));

// Settings that differ between runs, in the order in which the runs name them.
function varyingKeys(runs) {
  const all = new Set(runs.flatMap((run) => Object.keys(run.set)));
  return [...all].filter((key) => new Set(runs.map((run) => asText(run.set[key]))).size > 1);
}

// "scheduler" for "control.scheduler" and "transport" for "transport.kind", unless two keys end alike.
function shortNames(keys) {
  const last = (key) => key.replace(/\.kind$/, "").split(".").at(-1);
  return new Map(keys.map((key) => [key, keys.some((other) => other !== key && last(other) === last(key)) ? key : last(key)]));
}

function labelOf(run, keys, names) {
  if (keys.length === 0) return run.name || "run";
  const one = (key) => {
    const value = asText(run.set[key]);
    return /^[a-z]/i.test(value) && !AMBIGUOUS.has(value) ? value : `${names.get(key)} ${value}`;
  };
  const given = keys.filter((key) => run.set[key] !== undefined && run.set[key] !== null);
  return given.map(one).join(" · ") || run.name || "run";
}

function labelRuns(runs) {
  for (const tail of [(r) => `seed ${r.seed}`, (r) => r.name || `#${r.index}`]) {
    const count = new Map();
    runs.forEach((r) => count.set(r.label, (count.get(r.label) ?? 0) + 1));
    const alike = runs.filter((r) => count.get(r.label) > 1);
    const differs = new Set(alike.map(tail)).size > 1;
    if (differs) alike.forEach((r) => (r.label += ` · ${tail(r)}`));
  }
}
