//! What switches say: answers, errors, ports that fail, connections that end.

use std::collections::BTreeSet;

use weft_fabric::routing::FlowKey;
use weft_fabric::{Bytes, SwitchId};

use super::{OpenFlowNetwork, Output, Pending, Phase, messages};
use crate::controller::{FlowCounter, Input as ControllerInput};
use crate::openflow::port::PortReason;
use crate::openflow::{Body, FlowEntry, Message, MultipartReply, PortStatus, ReplyBody, Statistics};
use crate::time::Instant;

impl OpenFlowNetwork {
    pub(super) fn received(&mut self, now: Instant, id: SwitchId, message: Message) {
        let pending = &mut self.switches[id.index()].pending;
        match message.body {
            Body::MultipartReply(reply) => {
                if let Some(asked) = pending.remove(&message.xid) {
                    self.reply(now, id, asked, reply);
                }
            }
            Body::BarrierReply if pending.remove(&message.xid) == Some(Pending::Installed) => {
                self.switches[id.index()].phase = Phase::Ready;
                self.announce_around(now, id);
            }
            Body::RoleReply(_) => {
                pending.remove(&message.xid);
                self.reconcile_if_known(now, id);
            }
            Body::Error(error) => {
                let asked = pending.remove(&message.xid);
                if IS_SLAVE.contains(&(error.kind, error.code)) {
                    self.switches[id.index()].phase = Phase::Superseded;
                    self.switches[id.index()].pending.clear();
                }
                self.switches[id.index()].refused += 1;
                self.outputs.push_back(Output::Refused(id, error));
                if asked == Some(Pending::Counters) {
                    self.answered(now, id);
                }
                self.reconcile_if_known(now, id);
            }
            Body::PortStatus(PortStatus { port, reason }) => {
                if reason == PortReason::Delete {
                    self.port_is(now, id, port.number, false);
                } else {
                    self.ports_are(now, id, &[port]);
                }
            }
            Body::PacketIn(packet) => self.packet_in(now, id, &packet),
            Body::FlowRemoved(removed) if messages::is_counter(removed.table) => {
                let Some(key) = messages::connection(&self.identities, &removed.matching) else { return };
                self.ended(now, key);
            }
            _ => {}
        }
    }

    /// What was asked with this xid has an answer that cannot be read.
    pub(super) fn unreadable(&mut self, now: Instant, id: SwitchId, xid: u32) {
        match self.switches[id.index()].pending.remove(&xid) {
            Some(Pending::Counters) => self.answered(now, id),
            Some(_) => self.reconcile_if_known(now, id),
            None => {}
        }
    }

    pub(super) fn reply(&mut self, now: Instant, id: SwitchId, asked: Pending, reply: MultipartReply) {
        match (asked, reply.body) {
            (Pending::Ports, ReplyBody::PortDescriptions(ports)) => {
                self.ports_are(now, id, &ports);
                let mut missing: BTreeSet<u32> = self.ports_of(id);
                missing.retain(|number| !ports.iter().any(|port| port.number == *number));
                missing.iter().for_each(|&port| self.port_is(now, id, port, false));
                self.switches[id.index()].missing_ports = missing.into_iter().collect();
            }
            (Pending::Groups, ReplyBody::GroupDescriptions(groups)) => {
                self.switches[id.index()].found.groups = groups.into_iter().map(|g| g.id).collect();
            }
            (Pending::Rules, ReplyBody::Flows(entries)) => {
                let identities = &self.identities;
                let flows = entries.into_iter().filter_map(|entry| messages::found(identities, entry)).collect();
                self.switches[id.index()].found.flows = flows;
            }
            (Pending::Counters, ReplyBody::Flows(entries)) => {
                let identities = &self.identities;
                let of = |entry: &FlowEntry| {
                    let key = messages::connection(identities, &entry.matching)?;
                    let Statistics { bytes, duration, .. } = entry.statistics;
                    Some((key, Bytes(bytes?), duration?))
                };
                self.counters.replace(now, id, entries.iter().filter_map(of));
                self.forget_ended(now, id);
                self.answered(now, id);
            }
            _ => {}
        }
        self.reconcile_if_known(now, id);
    }

    /// Once a switch has answered everything that a reconciliation needs.
    pub(super) fn reconcile_if_known(&mut self, now: Instant, id: SwitchId) {
        let switch = &self.switches[id.index()];
        if switch.phase == Phase::Asking && switch.pending.is_empty() {
            self.reconcile(now, id);
        }
    }

    /// A connection has ended or is idle: its counter has gone, and its placement goes.
    pub(super) fn ended(&mut self, now: Instant, key: FlowKey) {
        self.counters.remove(&key);
        if let Some(controller) = &mut self.controller {
            let counter = FlowCounter { flow: key, bytes: Bytes(0), read_at: now, path: &[] };
            controller.handle(now, ControllerInput::FlowRemoved(counter));
        }
        self.clear(key);
    }

    /// Placements of connections that an edge switch no longer counts: they ended while no scheduler was connected.
    pub(super) fn forget_ended(&mut self, now: Instant, edge: SwitchId) {
        let is_gone = |key: &&FlowKey| self.identities.edge_of(key.src) == edge && self.counters.get(key).is_none();
        let gone: Vec<FlowKey> = self.placed.keys().filter(is_gone).copied().collect();
        gone.into_iter().for_each(|key| self.ended(now, key));
    }

    pub(super) fn ports_of(&self, id: SwitchId) -> BTreeSet<u32> {
        let fabric = self.fabric();
        fabric.out(fabric.switch_node(id)).iter().map(|&link| self.identities.port(link)).collect()
    }
}

/// Errors that say that another controller is master: OFPBRC_IS_SLAVE, OFPRRFC_STALE.
const IS_SLAVE: [(u16, u16); 2] = [(1, 10), (11, 0)];
