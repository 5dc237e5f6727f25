//! What a switch says of itself.

use serde_json::{Value, json};
use weft_directory::client::versions;

use super::Switch;
use super::tor::TorPart;
use crate::socket::{PendingRequest, Request};
use crate::vl2::dataplane::Counters;

impl Switch {
    /// Answers a question.
    pub(super) fn answer(&mut self, asked: PendingRequest) {
        match asked.request {
            Request::Status => asked.answer(&self.status()),
            _ => asked.refuse("this is the agent of a switch", "ask the agent of a host"),
        }
    }

    fn status(&self) -> Value {
        let counters = self.plane.counters();
        let mut problems: Vec<String> = counters.as_ref().err().map(ToString::to_string).into_iter().collect();
        let groups: Vec<Value> = self.groups();
        problems.extend(self.steady_problems());
        problems.extend(self.confirmation.problem());
        problems.extend(self.reconciler.problem());
        let verdict = if problems.is_empty() { "ok" } else { "not ok" };
        let local: Vec<Value> = self.local();
        let (counters, drops) = split(counters.unwrap_or_default());
        json!({
            "verdict": verdict, "summary": self.summary(local.len()), "problems": problems, "role": "switch", "version": env!("CARGO_PKG_VERSION"),
            "protocol": versions().newest(),
            "kind": self.kind(), "la": self.config.la, "principal": self.config.principal().0, "uptime_s": self.started.elapsed().as_secs(),
            "ports": self.config.ports, "local": local, "groups": groups, "directory": self.servers(), "attach": self.attach(),
            "dhcp": self.relay.as_ref().map(|relay| json!(relay.counts())),
            "alive": self.intermediate.iter().flat_map(super::intermediate::Intermediate::alive).collect::<Vec<_>>(),
            "unconfirmed_s": self.confirmation.unconfirmed_s(), "restored": self.reconciler.status(), "counters": counters, "drops": drops,
        })
    }

    /// Problems that read the same while they last.
    pub(super) fn steady_problems(&self) -> Vec<String> {
        let groups = self.intermediate.iter().flat_map(super::intermediate::Intermediate::groups);
        let dead = groups.filter(|group| group.members.is_empty()).count();
        let dead = (dead > 0).then(|| format!("{dead} groups have no member"));
        let silent = self.tor.iter().flat_map(TorPart::silent).map(|(principal, addresses)| {
            let all = addresses.join(", ");
            format!("the agent of host {principal} does not speak; its programs run, and packets for {all} are delivered")
        });
        dead.into_iter().chain(silent).collect()
    }

    fn summary(&self, local: usize) -> String {
        let mut parts = vec![self.line()];
        if self.tor.is_some() {
            parts.push(format!("{local} addresses here"));
        }
        if let Some(intermediate) = &self.intermediate {
            let groups = intermediate.groups();
            let served = groups.iter().filter(|group| group.is_served).count();
            parts.push(format!("serves {served} of {} groups", groups.len()));
        }
        parts.join(", ")
    }

    fn local(&self) -> Vec<Value> {
        let of = |(address, local, port): (std::net::IpAddr, &weft_control::vl2::switch::Local, &str)| json!({"address": address, "port": port, "mac": local.mac.to_string(), "principal": local.principal.0, "service": local.service.0});
        self.tor.iter().flat_map(|tor| tor.local().map(of).collect::<Vec<_>>()).collect()
    }

    fn groups(&self) -> Vec<Value> {
        let groups = self.intermediate.iter().flat_map(super::intermediate::Intermediate::groups);
        groups.map(|g| json!({"group": g.group.0, "address": g.address, "served": g.is_served, "members": g.members})).collect()
    }

    fn servers(&self) -> Vec<Value> {
        let configured = self.config.directory.get_ref().as_slice();
        self.tor.as_ref().map_or(configured, TorPart::servers).iter().map(|server| json!({"server": server})).collect()
    }

    fn attach(&self) -> Value {
        let Some(tor) = &self.tor else { return Value::Null };
        let c = tor.counts();
        json!({
            "attached": c.attached, "detached": c.detached, "refused": c.refused, "malformed": c.malformed, "strangers": c.strangers,
            "unsupported": c.unsupported, "bad_tags": c.bad_tags, "replayed": c.replayed, "expired": c.expired, "present": c.present, "reported": c.reported, "unreported": c.unreported,
        })
    }
}

/// What was counted, and among it what was dropped, by name.
fn split(counters: Counters) -> (Value, Value) {
    let of = |is_drop: bool| {
        let some = counters.iter().filter(|(counter, _)| counter.is_drop() == is_drop);
        Value::Object(some.map(|(counter, value)| (counter.name().to_owned(), json!(value))).collect())
    };
    (of(false), of(true))
}
