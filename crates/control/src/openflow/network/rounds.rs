//! Rounds: counters are read, and what the controller wants is done.

use std::collections::BTreeSet;

use weft_fabric::SwitchId;

use super::{OpenFlowNetwork, Pending, Phase, Reading, messages};
use crate::controller::{Input as ControllerInput, Output as ControllerOutput};
use crate::time::{Duration, Instant};

impl OpenFlowNetwork {
    pub(super) fn timer(&mut self, now: Instant) {
        if self.cables.next.is_some_and(|next| next <= now) {
            self.announce_all(now);
        }
        if self.reading.as_ref().is_some_and(|reading| reading.until <= now) {
            self.counters.late_rounds += 1;
            self.finish_reading(now);
        }
        if let Some(controller) = &mut self.controller
            && controller.deadline().is_some_and(|deadline| deadline <= now)
        {
            controller.handle(now, ControllerInput::Timer);
        }
    }

    /// Does what the controller wants.
    pub(super) fn run_controller(&mut self, now: Instant) {
        while let Some(output) = self.controller.as_mut().and_then(|c| c.poll()) {
            match output {
                ControllerOutput::ReadFlowCounters => self.read_counters(now),
                ControllerOutput::SetPath { flow, path } => self.place(flow, path),
                ControllerOutput::ClearPath { flow } => self.clear(flow),
                // Of Subways' scheduler, which steers hosts.
                ControllerOutput::ReadLinkCounters
                | ControllerOutput::SetAccessPaths { .. }
                | ControllerOutput::Rebind { .. } => {}
            }
        }
    }

    /// Asks the edge switches for the counters of their hosts' connections.
    pub(super) fn read_counters(&mut self, now: Instant) {
        if self.reading.is_some() {
            // The round before still waits: this one reads what it would have.
            return;
        }
        let edges: BTreeSet<SwitchId> = self.fabric().hosts().map(|host| self.identities.edge_of(host)).collect();
        let ready: BTreeSet<SwitchId> = edges.into_iter().filter(|e| self.switches[e.index()].phase == Phase::Ready).collect();
        for &edge in &ready {
            // What it has not answered since the last round it is not waited for.
            self.switches[edge.index()].pending.retain(|_, asked| *asked != Pending::Counters);
            self.ask(edge, Pending::Counters, messages::all_counters());
        }
        self.counters.ask(now);
        let is_empty = ready.is_empty();
        self.reading = Some(Reading { until: now + ANSWER, waiting: ready });
        if is_empty {
            self.finish_reading(now);
        }
    }

    /// A switch has answered, or will not.
    pub(super) fn answered(&mut self, now: Instant, id: SwitchId) {
        if let Some(reading) = &mut self.reading
            && reading.waiting.remove(&id)
            && reading.waiting.is_empty()
        {
            self.finish_reading(now);
        }
    }

    pub(super) fn finish_reading(&mut self, now: Instant) {
        self.reading = None;
        if let Some(controller) = &mut self.controller {
            let counters = self.counters.all(&self.placed);
            controller.handle(now, ControllerInput::FlowCounters(&counters));
        }
    }
}

/// How long a round waits for the counters of a switch.
const ANSWER: Duration = Duration::from_secs(1);
