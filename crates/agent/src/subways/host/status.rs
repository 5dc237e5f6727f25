//! What a host says of itself.

use std::fs;

use metrics::{counter, gauge};
use serde_json::{Map, Value, json};
use weft_control::time::Duration;
use weft_control::wire::subways::FIRST_DETOUR;

use super::{DETOUR_HEADERS, Host};

impl Host {
    /// What it is, and where.
    pub(super) fn line(&self) -> String {
        let nics = self.config.nics();
        let devices: Vec<&str> = nics.iter().map(|(device, _)| device.as_str()).collect();
        format!("{} {} on {}", self.config.access.name(), nics[0].1, devices.join(", "))
    }

    /// As `weft agent status` has it.
    pub(super) fn status(&mut self) -> Value {
        let flows = self.plane.flows().unwrap_or_default();
        let counters = self.plane.counters();
        let mut problems = self.steady_problems();
        problems.extend(counters.as_ref().err().map(ToString::to_string));
        problems.extend(self.reconciler.problem());
        let verdict = if problems.is_empty() { "ok" } else { "not ok" };
        let split = |is_drop: bool| -> Map<String, Value> {
            let all = counters.iter().flatten().filter(|(_, drops, _)| *drops == is_drop);
            all.map(|&(name, _, value)| (name.to_owned(), json!(value))).collect()
        };
        let nics: Vec<Value> = self
            .config
            .nics()
            .iter()
            .enumerate()
            .map(|(at, (device, address))| {
                let leaving = flows.iter().filter(|flow| usize::from(flow.nics.out) == at).count();
                json!({ "device": device, "address": address, "up": self.down >> at & 1 == 0, "flows": leaving })
            })
            .collect();
        let (now, counts, loops) = (self.now(), self.machine.counts(), self.machine.loops());
        let scheduler = self.machine.scheduler(now);
        let detoured = flows.iter().filter(|flow| flow.nics.out.max(flow.nics.into) >= FIRST_DETOUR).count();
        let ms = |length: Duration| length.as_secs_f64() * 1e3;
        let summary = format!("{}; {} flows, by {}", self.line(), flows.len(), self.weights());
        let down: Vec<_> = self.machine.down().iter().collect();
        json!({
            "verdict": verdict, "summary": summary, "problems": problems, "overlay": "none", "role": "host", "version": env!("CARGO_PKG_VERSION"),
            "uptime_s": self.started.elapsed().as_secs(), "nics": nics, "flows": flows.len(), "weights": self.weights(), "down": down,
            "detours": self.config.has_detours().then(|| json!({ "known": self.machine.detours(), "flows": detoured })),
            "scheduler": {
                "addresses": self.config.access.schedulers, "generation": scheduler.map(|(generation, _)| generation),
                "heard_s": scheduler.map(|(_, since)| since.as_secs_f64()), "reported": self.machine.reported_flows(),
                "loops": loops.count, "loop_mean_ms": loops.mean().map(ms), "loop_max_ms": ms(loops.max),
                "counts": {
                    "reports": counts.reports, "ordered": counts.ordered, "evaded": counts.evaded, "over_limit": counts.over_limit,
                    "orders_refused": counts.refused, "orders_superseded": counts.superseded, "orders_stale": counts.stale,
                },
            },
            "restored": self.reconciler.status(), "counters": split(false), "drops": split(true),
        })
    }

    fn weights(&self) -> &'static str {
        if self.machine.is_weighted() { "the scheduler's weights" } else { "the speed of NICs" }
    }

    /// Problems that read the same while they last.
    pub(super) fn steady_problems(&self) -> Vec<String> {
        let nics = self.config.nics();
        let mut problems: Vec<String> = nics
            .iter()
            .enumerate()
            .filter(|(at, _)| self.down >> at & 1 == 1)
            .map(|(_, (device, _))| format!("{device} is down"))
            .collect();
        problems.extend(nics.iter().filter(|(device, _)| is_strict(device)).map(|(device, _)| {
            format!("{device} drops packets that came by another NIC than answers would take: set net.ipv4.conf.{device}.rp_filter = 2")
        }));
        problems.extend(self.mtu_problem());
        let schedulers = &self.config.access.schedulers;
        let now = self.now();
        let silence =
            self.machine.scheduler(now).map_or(now.saturating_since(weft_control::time::Instant::ZERO), |(_, since)| since);
        if !schedulers.is_empty() && silence >= SILENT {
            let all: Vec<String> = schedulers.iter().map(ToString::to_string).collect();
            problems.push(format!("no scheduler at {} answers: flows keep their NICs, new ones draw by speed", all.join(", ")));
        }
        problems.extend(self.error.clone());
        problems
    }

    /// Packets with the headers of detours that do not fit.
    fn mtu_problem(&self) -> Option<String> {
        if !self.config.has_detours() {
            return None;
        }
        let (mtu, nics) = (self.config.mtu().ok()?, self.config.nic_mtu().ok()?);
        let needed = mtu + DETOUR_HEADERS;
        (needed > nics).then(|| {
            format!("packets of {mtu} bytes with the headers of detours need NICs with an MTU of {needed}, and these have {nics}: raise it, or lower `mtu`")
        })
    }

    /// Brings metrics up to date.
    pub(super) fn measure(&mut self) {
        for (name, is_drop, value) in self.plane.counters().unwrap_or_default() {
            if name == "forwarded_bytes" {
                counter!("weft_agent_forwarded_bytes_total").absolute(value);
                continue;
            }
            let metric = if is_drop { "weft_agent_dropped_total" } else { "weft_agent_packets_total" };
            counter!(metric, "reason" => name).absolute(value);
        }
        let (counts, loops) = (self.machine.counts(), self.machine.loops());
        gauge!("weft_agent_flows_reported").set(self.machine.reported_flows() as f64);
        gauge!("weft_agent_nics_down").set(f64::from(self.down.count_ones()));
        gauge!("weft_agent_weighted").set(f64::from(u8::from(self.machine.is_weighted())));
        counter!("weft_agent_access_reports_total").absolute(counts.reports);
        counter!("weft_agent_moves_total", "reason" => "ordered").absolute(counts.ordered);
        counter!("weft_agent_moves_total", "reason" => "evaded").absolute(counts.evaded);
        for (reason, value) in [("refused", counts.refused), ("superseded", counts.superseded), ("stale", counts.stale)] {
            counter!("weft_agent_orders_dropped_total", "reason" => reason).absolute(value);
        }
        counter!("weft_agent_control_loops_total").absolute(loops.count);
        gauge!("weft_agent_control_loop_seconds_total").set(loops.sum.as_secs_f64());
    }
}

/// Whether the kernel checks sources strictly at a device (`rp_filter` 1, there or for all).
fn is_strict(device: &str) -> bool {
    let of = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
        text.ok().and_then(|text| text.trim().parse::<u8>().ok()).unwrap_or(0)
    };
    of("all").max(of(device)) == 1
}

/// A scheduler that has not answered for so long is a problem.
const SILENT: Duration = Duration::from_secs(5);
