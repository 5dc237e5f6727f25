//! Rules of placed flows, and what differs between what a switch has and should have.

use std::sync::Arc;

use weft_fabric::routing::next_hops::Target;
use weft_fabric::routing::{FlowKey, Path};
use weft_fabric::{LinkId, SwitchId};

use super::rules::{Action, Matched, Rules};
use super::{OpenFlowNetwork, Phase, messages};
use crate::controller::Input as ControllerInput;
use crate::openflow::Version;
use crate::time::Instant;

impl OpenFlowNetwork {
    pub(super) fn place(&mut self, key: FlowKey, path: Path) {
        // The switches nearest to the destination first: what comes before leads to rules that are there.
        let ports: Vec<(SwitchId, u32)> = self.choices(&path).into_iter().rev().collect();
        for switch in self.fabric().switches() {
            if !ports.iter().any(|&(s, _)| s == switch) {
                self.remove_at(switch, key);
            }
        }
        ports.into_iter().for_each(|(switch, port)| self.place_at(switch, key, port));
        self.placed.insert(key, path);
    }

    pub(super) fn clear(&mut self, key: FlowKey) {
        self.placed.remove(&key);
        self.fabric().switches().for_each(|switch| self.remove_at(switch, key));
    }

    pub(super) fn place_at(&mut self, id: SwitchId, key: FlowKey, port: u32) {
        let switch = &mut self.switches[id.index()];
        if matches!(switch.phase, Phase::Installing | Phase::Ready) && switch.placed.insert(key, port) != Some(port) {
            let rule = messages::add(&self.identities, Matched::Flow(key), Action::Output(port), self.idle_timeout());
            self.send(id, rule);
        }
    }

    pub(super) fn remove_at(&mut self, id: SwitchId, key: FlowKey) {
        if self.switches[id.index()].placed.remove(&key).is_some() {
            self.send(id, messages::remove(&self.identities, Matched::Flow(key)));
        }
    }

    /// A switch that has come has a rule for a flow. Once the rules of all switches on its way are known, the flow is placed, and the controller
    /// takes it over.
    pub(super) fn learn(&mut self, now: Instant, id: SwitchId, key: FlowKey, port: u32) {
        self.switches[id.index()].placed.insert(key, port);
        if !self.placed.contains_key(&key)
            && let Some(path) = self.trace(key)
        {
            if let Some(controller) = &mut self.controller {
                controller.handle(now, ControllerInput::Placed(key, &path));
            }
            self.placed.insert(key, path);
        }
    }

    /// The path that a flow takes by the rules that are known; `None` if one of its switches has a choice and no rule.
    pub(super) fn trace(&mut self, key: FlowKey) -> Option<Path> {
        let fabric = Arc::clone(self.fabric());
        let mut path = Path::from_slice(fabric.out(key.src.node()));
        let rack = fabric.rack_of(key.dst);
        loop {
            let node = fabric.link(*path.last()?).to;
            let Some(switch) = fabric.as_switch(node) else { return Some(path) };
            let placed = self.switches[switch.index()].placed.get(&key);
            let next = match (placed, self.next_hops.toward(&self.health, Target::Rack(rack), node)) {
                (Some(&port), _) => self.identities.link_of(switch, port)?,
                (None, &[]) => fabric.out(key.dst.node())[0].reverse(),
                (None, &[only]) => only,
                (None, _) => return None,
            };
            if fabric.link(next).from != node || path.contains(&next) {
                return None;
            }
            path.push(next);
        }
    }

    /// The switches on a path that have a choice, each with the port by which the path leaves it.
    pub(super) fn choices(&mut self, path: &Path) -> Vec<(SwitchId, u32)> {
        let fabric = Arc::clone(self.fabric());
        let Some(rack) = path.last().and_then(|&l| fabric.as_host(fabric.link(l).to)).map(|h| fabric.rack_of(h)) else {
            return Vec::new();
        };
        let healthy = self.identities.healthy();
        let mut has_choice = |&link: &LinkId| {
            let node = fabric.link(link).from;
            // As all parts work: a rule that no failure makes superfluous.
            fabric.as_switch(node).filter(|_| self.choice.toward(&healthy, Target::Rack(rack), node).len() > 1)
        };
        path.iter().filter_map(|link| Some((has_choice(link)?, self.identities.port(*link)))).collect()
    }

    /// Sends what differs from what the switch has.
    pub(super) fn install(&mut self, id: SwitchId, wanted: Rules) {
        let installed = std::mem::take(&mut self.switches[id.index()].installed);
        let version = self.switches[id.index()].version.unwrap_or(Version::V15);
        let basis = messages::basis(self.settings.seed, self.identities.datapath(id));
        for (&group, ports) in wanted.groups.iter().filter(|(group, _)| !installed.groups.contains_key(group)) {
            self.send(id, messages::add_group(group, ports, version, basis));
        }
        for (&matched, &action) in wanted.flows.iter().filter(|(matched, action)| installed.flows.get(matched) != Some(action)) {
            self.send(id, messages::add(&self.identities, matched, action, self.idle_timeout()));
        }
        for &matched in installed.flows.keys().filter(|matched| !wanted.flows.contains_key(matched)) {
            self.send(id, messages::remove(&self.identities, matched));
        }
        for &group in installed.groups.keys().filter(|group| !wanted.groups.contains_key(group)) {
            self.send(id, messages::delete_group(group));
        }
        self.switches[id.index()].installed = wanted;
    }
}
