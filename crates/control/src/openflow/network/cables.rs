//! Whether cables are where the fabric has them, and whether they work.
//!
//! Each port between switches announces itself by LLDP; the switch at the other end hands the announcement over. A cable that leads elsewhere is
//! as one that has failed: nothing is sent over it, and the status says where it leads. A cable over which nothing is heard is only reported:
//! a device between may keep LLDP for itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use weft_fabric::topology::Part;
use weft_fabric::{CableId, Fabric, LinkId, SwitchId};

use super::rules::Rules;
use super::{OpenFlowNetwork, Phase, messages};
use crate::controller::Input as ControllerInput;
use crate::openflow::lldp::SwitchPort;
use crate::openflow::{Body, PacketIn, Port};
use crate::time::{Duration, Instant};

/// What announcements have said.
#[derive(Debug)]
pub(super) struct Cables {
    /// Ports that a cable connects and should not, each named by the link that leaves there; the lower one first.
    wrong: BTreeSet<[LinkId; 2]>,
    /// By link: announcements that should have come in at its port since one came.
    unheard: Vec<u32>,
    /// When all ports announce themselves again.
    pub next: Option<Instant>,
}

impl Cables {
    pub fn new(fabric: &Fabric) -> Self {
        Self { wrong: BTreeSet::new(), unheard: vec![0; fabric.links().len()], next: None }
    }

    /// Ports that a cable connects and should not, by the links that leave there.
    pub fn wrong(&self) -> impl Iterator<Item = [LinkId; 2]> {
        self.wrong.iter().copied()
    }

    /// Links at whose port nothing has come in for a while.
    pub fn silent(&self) -> impl Iterator<Item = LinkId> {
        (0..).map(LinkId).zip(&self.unheard).filter(|&(_, &unheard)| unheard > LOST_MAX).map(|(link, _)| link)
    }

    /// A cable leads from the port of one link to that of another. Returns the links of which something has changed.
    fn heard(&mut self, at: LinkId, from: LinkId) -> Vec<LinkId> {
        self.unheard[at.index()] = 0;
        let pair = [at.min(from), at.max(from)];
        if self.wrong.contains(&pair) {
            return Vec::new();
        }
        // Neither port leads anywhere else.
        let mut changed = self.forget(&pair);
        if from != at.reverse() {
            self.wrong.insert(pair);
            changed.extend(pair);
        }
        changed
    }

    /// Forgets wrong cables at these ports. Returns the links that they were about.
    fn forget(&mut self, ports: &[LinkId]) -> Vec<LinkId> {
        let (gone, kept) = self.wrong.iter().partition(|pair| pair.iter().any(|link| ports.contains(link)));
        self.wrong = kept;
        let gone: BTreeSet<[LinkId; 2]> = gone;
        gone.into_iter().flatten().collect()
    }
}

impl OpenFlowNetwork {
    /// A switch says how some of its ports are. Once it has called one live, those that are not do not work: BFD has lost the other end.
    pub(super) fn ports_are(&mut self, now: Instant, id: SwitchId, ports: &[Port]) {
        let switch = &mut self.switches[id.index()];
        for port in ports {
            if port.is_up() && !port.is_live() {
                switch.lifeless.insert(port.number);
            } else {
                switch.lifeless.remove(&port.number);
            }
        }
        let is_first = !switch.knows_liveness && ports.iter().any(Port::is_live);
        switch.knows_liveness |= is_first;
        let knows_liveness = switch.knows_liveness;
        let taken_for_up = if is_first { switch.lifeless.clone() } else { BTreeSet::new() };
        for port in ports {
            self.port_is(now, id, port.number, port.is_up() && (port.is_live() || !knows_liveness));
        }
        taken_for_up.into_iter().for_each(|port| self.port_is(now, id, port, false));
    }

    /// A port of a switch works or does not.
    pub(super) fn port_is(&mut self, now: Instant, id: SwitchId, port: u32, up: bool) {
        let Some(link) = self.identities.link_of(id, port) else { return };
        let known = if up { self.dead_ports.remove(&link) } else { self.dead_ports.insert(link) };
        if !known {
            return;
        }
        self.cables.unheard[link.index()] = 0;
        // Another cable may be plugged in.
        let mut changed = self.cables.forget(&[link]);
        changed.push(link);
        self.judge(now, &changed);
        if up {
            self.announce(link);
            self.announce(link.reverse());
        }
    }

    /// All ports of a switch that has all rules, and those at their other ends, announce themselves.
    pub(super) fn announce_around(&mut self, now: Instant, id: SwitchId) {
        let fabric = Arc::clone(self.fabric());
        for &link in fabric.out(fabric.switch_node(id)) {
            self.announce(link);
            self.announce(link.reverse());
        }
        self.cables.next.get_or_insert(now + INTERVAL);
    }

    /// All ports announce themselves.
    pub(super) fn announce_all(&mut self, now: Instant) {
        for link in (0..self.fabric().links().len()).map(LinkId::from) {
            let is_expected = self.announce(link) && self.can_announce(link.reverse());
            let unheard = &mut self.cables.unheard[link.reverse().index()];
            *unheard = if is_expected { *unheard + 1 } else { 0 };
        }
        self.cables.next = Some(now + INTERVAL);
    }

    /// A switch hands over what has come in at a port.
    pub(super) fn packet_in(&mut self, now: Instant, id: SwitchId, packet: &PacketIn) {
        let at = packet.in_port().and_then(|port| self.identities.link_of(id, port));
        let Ok(Some(SwitchPort { datapath, port })) = self.announcer.sender(&packet.data) else { return };
        let from = self.identities.switch_of(datapath).and_then(|switch| self.identities.link_of(switch, port));
        if let (Some(at), Some(from)) = (at, from) {
            let changed = self.cables.heard(at, from);
            self.judge(now, &changed);
        }
    }

    /// Sends an announcement out of the port of a link, if it can.
    fn announce(&mut self, link: LinkId) -> bool {
        let is_possible = self.can_announce(link);
        if let (true, Some(switch)) = (is_possible, self.fabric().as_switch(self.fabric().link(link).from)) {
            let port = SwitchPort { datapath: self.identities.datapath(switch), port: self.identities.port(link) };
            let frame = self.announcer.frame(port, TTL_S);
            self.send(switch, Body::PacketOut(messages::out_of(port.port, frame)));
        }
        is_possible
    }

    /// Whether the port of a link is one between switches that works, of a switch that has all rules.
    fn can_announce(&self, link: LinkId) -> bool {
        let end = |node| self.fabric().as_switch(node);
        let ends = self.fabric().link(link);
        let ready = end(ends.from).is_some_and(|switch| self.switches[switch.index()].phase == Phase::Ready);
        ready && end(ends.to).is_some() && !self.dead_ports.contains(&link)
    }

    /// Whether the cables of these links work: if both ends do, and they lead where the fabric has them.
    fn judge(&mut self, now: Instant, links: &[LinkId]) {
        let fabric = Arc::clone(self.fabric());
        let cables: BTreeSet<CableId> = links.iter().map(|link| link.cable()).collect();
        let mut changed = Vec::new();
        for cable in cables {
            let is_wrong = |link: &LinkId| self.cables.wrong.iter().any(|pair| pair.contains(link));
            let works = !cable.links().iter().any(|link| self.dead_ports.contains(link) || is_wrong(link));
            let part = Part::Cable(cable);
            let links = if works { self.health.restore(&fabric, part) } else { self.health.fail(&fabric, part) };
            if !links.is_empty() {
                changed.push(if works { ControllerInput::Restored(part) } else { ControllerInput::Failed(part) });
            }
        }
        if changed.is_empty() {
            return;
        }
        self.next_hops.invalidate();
        for switch in fabric.switches() {
            if matches!(self.switches[switch.index()].phase, Phase::Installing | Phase::Ready) {
                let wanted = Rules::of(&self.identities, &self.health, &mut self.next_hops, switch);
                self.install(switch, wanted);
            }
        }
        if let Some(controller) = &mut self.controller {
            changed.into_iter().for_each(|input| controller.handle(now, input));
        }
    }
}

/// Between two announcements of a port.
const INTERVAL: Duration = Duration::from_secs(15);
/// How long an announcement holds, for those who read LLDP themselves.
const TTL_S: u16 = 45;
/// Announcements in a row that may be lost before a cable is reported.
const LOST_MAX: u32 = 3;
