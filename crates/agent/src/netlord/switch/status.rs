//! What a switch says of itself.

use serde_json::{Map, Value, json};
use weft_directory::client::versions;

use super::Switch;
use crate::config::Role;
use crate::netlord::dataplane::Limit;

impl Switch {
    pub(super) fn status(&self) -> Value {
        let mut problems: Vec<String> = self.last_error.iter().cloned().collect();
        let counters = self.plane.counters();
        let (mut counted, mut drops) = (Map::new(), Map::new());
        match &counters {
            Ok(all) => {
                for (name, is_drop, value) in all.iter() {
                    if is_drop { &mut drops } else { &mut counted }.insert(name.to_owned(), json!(value));
                }
            }
            Err(error) => problems.push(error.to_string()),
        }
        let silent = self.plane.ports().filter(|(_, port)| port.number.is_some() && port.server.is_none());
        let silent: Vec<String> = silent.map(|(_, port)| port.device.clone()).collect();
        if !silent.is_empty() {
            problems.push(format!("the servers at {} have not answered ARP", silent.join(", ")));
        }
        problems.extend(self.reconciler.problem());
        let (fib, limit) = self.plane.fib().unwrap_or_default();
        let verdict = if problems.is_empty() { "ok" } else { "not ok" };
        json!({
            "verdict": verdict,
            "summary": format!("{}, {} of {limit} addresses learned", self.kind_line(), fib.len()),
            "problems": problems,
            "overlay": "netlord",
            "role": self.role(),
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": versions().newest(),
            "mac": self.config.mac.map(|mac| mac.to_string()),
            "uptime_s": self.started.elapsed().as_secs(),
            "adopted": self.plane.adopted(),
            "ports": self.ports(),
            "fib": { "used": fib.len(), "limit": limit, "list": self.fib(&fib) },
            "tenants": self.tenants(),
            "shared_limits": self.shares.as_ref().map(super::Shares::status),
            "restored": self.reconciler.status(),
            "counters": counted,
            "drops": drops,
        })
    }

    pub(super) fn role(&self) -> &'static str {
        if *self.config.role.get_ref() == Role::Edge { "edge" } else { "core" }
    }

    pub(super) fn kind_line(&self) -> String {
        let ports = self.plane.ports().count();
        let mac = self.config.mac.map_or_else(String::new, |mac| format!(" {mac}"));
        format!("{} switch{mac} with {ports} ports", self.role())
    }

    fn ports(&self) -> Vec<Value> {
        let of = |(_, it): (u32, &crate::netlord::dataplane::Port)| json!({ "device": it.device, "number": it.number.map(weft_control::netlord::EdgePort::get), "vlans": it.vlans.len(), "native": it.native.map(weft_control::wire::packet::ethernet::VlanId::get), "server": it.server.map(|mac| mac.to_string()) });
        self.plane.ports().map(of).collect()
    }

    fn fib(&self, entries: &[crate::netlord::dataplane::FibEntry]) -> Vec<Value> {
        let device = |index: u32| self.plane.ports().find(|(at, _)| *at == index).map(|(_, port)| port.device.clone());
        let shown = entries.iter().take(FIB_SHOWN);
        shown.map(|it| json!({ "mac": it.mac.to_string(), "vlan": it.vlan, "port": device(it.ifindex) })).collect()
    }

    fn tenants(&self) -> Vec<Value> {
        let limit = |id| {
            self.limits.iter().find(|(tenant, _)| *tenant == id).map(|(_, limit)| match limit {
                Limit::Deny => "deny".to_owned(),
                Limit::Rate { bytes_per_second, .. } => weft_fabric::BitsPerSec(bytes_per_second * 8).to_string(),
            })
        };
        let all = self.plane.tenants().unwrap_or_default();
        all.iter()
            .map(|it| json!({ "tenant": it.tenant.0, "packets": it.packets, "bytes": it.bytes, "denied": it.denied, "limited": it.limited, "limit": limit(it.tenant), "share": self.shares.as_ref().and_then(|shares| shares.share(it.tenant)) }))
            .collect()
    }
}

/// More are counted only.
const FIB_SHOWN: usize = 1000;
