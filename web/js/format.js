// Numbers as people read them, and what the metrics are called.

const METRICS = {
  goodput_bps: ["Goodput", "bps", "high", "Bits delivered to all hosts, per second, without the start and the end of the run that the scenario leaves out."],
  optimal_fraction: ["Of non-blocking", "share", "high", "Goodput as a share of what the same flows reach on one non-blocking switch."],
  goodput_fraction: ["Of NIC bound", "share", "high", "Goodput as a share of what the network cards of the active senders and receivers could carry."],
  bisection_fraction: ["Of bisection", "share", "high", "Goodput as a share of all hosts sending at the rate of their network card."],
  nonblocking_fraction: ["Non-blocking, of NICs", "share", "", "What the same flows reach on one non-blocking switch, as a share of all hosts sending at the rate of their network card."],
  splittable_fraction: ["Splittable", "share", "high", "The part of the non-blocking switch's rates that this fabric could carry if flows were split over all paths."],
  loss_fraction: ["Lost", "share", "low", "Share of the flows that exceed the slots of a link on their path."],
  host_completion_mean_s: ["Host completion", "s", "low", "When a sender's last flow ended: mean over the senders."],
  flows: ["Flows", "count", "", "Flows that began."],
  flows_finished: ["Finished", "count", "", "Flows that ended within the run."],
  rounds: ["Rounds", "count", "", "Rounds of the scheduler."],
  large_flows_mean: ["Large flows", "", "", "Large flows that the scheduler saw: mean over its rounds."],
  detours_mean: ["Detours", "", "", "Detours from rack to rack that were in force: mean over the rounds of the controllers."],
  moves: ["Moves", "count", "low", "How often the scheduler changed a flow's path."],
  control_loop_s: ["Control loop", "s", "low", "Length of the control loop by the model of Hedera, table 6."],
  demand_min_fraction: ["Demand, least", "share", "", "Smallest estimated demand, as a share of a network card."],
  demand_max_fraction: ["Demand, largest", "share", "", "Largest estimated demand, as a share of a network card."],
  demand_wall_s: ["Estimation", "s", "low", "Time to estimate the demands, on this machine."],
  place_wall_s: ["Placement", "s", "low", "Time to place the flows, on this machine."],
  completion_s: ["Completion", "s", "low", "When the last flow ended."],
  fct_mean_s: ["FCT mean", "s", "low", "Flow completion time, from a flow's start to its last byte: mean."],
  fct_p50_s: ["FCT p50", "s", "low", "Flow completion time: half of the flows are faster."],
  fct_p99_s: ["FCT p99", "s", "low", "Flow completion time: 99 of 100 flows are faster."],
  jain_flows: ["Jain, flows", "", "high", "Jain's fairness index of the flows' rates: 1 if all are equal, 1/n if one has all."],
  split_jain_mean: ["Jain, split", "", "high", "Jain's fairness index of how switches split traffic over their uplinks, mean over time."],
  efficiency: ["Efficiency", "share", "high", "Goodput as a share of what the senders' network cards can carry of payload, acknowledgements and headers taken off."],
  latency_mean_s: ["Latency, mean", "s", "low", "Mean time from request to answer."],
  latency_p50_s: ["Latency, p50", "s", "low", "Time from request to answer: half of the requests are faster."],
  latency_p99_s: ["Latency, p99", "s", "low", "Time from request to answer: 99 of 100 requests are faster."],
  requests_per_s: ["Requests/s", "", "high", "Requests answered per second."],
  drops: ["Drops", "count", "low", "Packets dropped."],
  retransmits: ["Retransmits", "count", "low", "Packets sent again."],
  floods: ["Floods", "count", "low", "Packets flooded because a switch did not know the destination."],
  reconverge_s: ["Re-converged", "s", "low", "From a failure until goodput is back and nothing is sent into the dead part: the longest."],
  restore_s: ["Restored", "s", "low", "From a repair to traffic on the repaired part."],
  outage_s: ["Outage", "s", "low", "The longest time that a flow received nothing after something failed."],
  move_outage_s: ["Move outage", "s", "low", "How long a moved machine could not be reached."],
  fib_entries_max: ["FIB, largest", "count", "low", "Entries in the fullest forwarding table."],
  flows_broken: ["Broken flows", "count", "low", "Flows whose connection ended before they did."],
  isolation_drops: ["Isolation drops", "count", "", "Packets dropped because the tenant may not reach the destination."],
  hops: ["Hops", "count", "", "Packets sent over one link each."],
  events: ["Events", "count", "", "Events that the simulation processed."],
  wall_s: ["Wall time", "s", "low", "How long the run took on this machine, reading and writing included."],
  rss_bytes: ["Memory", "B", "low", "Largest resident memory of the run."],
  cpu_idle_fraction: ["Idle CPU", "share", "high", "Share of the processors' time that was idle; little of it makes a lab run doubtful."],
};
const MAIN_METRICS = ["goodput_bps", "optimal_fraction", "goodput_fraction", "bisection_fraction", "loss_fraction",
  "completion_s", "fct_p50_s", "fct_p99_s", "jain_flows", "latency_mean_s", "latency_p99_s", "requests_per_s", "efficiency", "drops", "retransmits"];

function metricOf(name) {
  const [base, service] = name.split(".");
  const known = METRICS[base];
  if (known && base === "outage_s") return { name, label: `${known[0]}, ${service ?? "all"}`, kind: known[1], better: known[2], text: service ? `${known[3]} What failed: ${service}.` : known[3] };
  if (known && service) return { name, label: `${known[0]}, ${service}`, kind: known[1], better: known[2], text: `${known[3]} Of the service ${service} alone, over its own time.` };
  if (known) return { name, label: known[0], kind: known[1], better: known[2], text: known[3] };
  const kind = /_bps$/.test(name) ? "bps" : /_s$/.test(name) ? "s" : /_bytes$/.test(name) ? "B" : /_fraction$/.test(name) ? "share" : "";
  return { name, label: name.replace(/_(bps|s|bytes|fraction)$/, "").replaceAll("_", " "), kind, better: "", text: "" };
}

const SCALES = {
  bps: [[1e12, "Tbps"], [1e9, "Gbps"], [1e6, "Mbps"], [1e3, "kbps"], [1, "bps"]],
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  B: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  share: [[0.01, "%"]],
  count: [[1, ""]],
  "": [[1, ""]],
};

// The unit in which the largest of some values reads well: { factor, unit }.
function scaleFor(kind, largest) {
  const steps = SCALES[kind] ?? SCALES[""];
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
