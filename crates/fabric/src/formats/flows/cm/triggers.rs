//! Flows of a connection matrix that begin when others end.
//!
//! ```text
//!   flow ends --> trigger --> oneshot: all that wait    multishot: the next that waits    barrier: all, after `count` ends
//! ```

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::matrix::{Connection, ConnectionMatrix, RawConnection, Trigger, TriggerKind};
use crate::formats::FormatError;
use crate::ids::FlowId;
use crate::time::Instant;
use crate::traffic::{FlowSpec, Size, StaticWorkload, Workload};

impl ConnectionMatrix {
    /// The flows, each begun by its start or its trigger.
    pub fn workload(&self) -> Box<dyn Workload> {
        if self.has_triggers() {
            Box::new(TriggeredWorkload::new(self.clone()))
        } else {
            Box::new(StaticWorkload::new(self.flows()))
        }
    }
}

/// Ties connections to triggers, and checks that each trigger fires as often as its kind allows and that each flow begins.
pub(super) fn check_triggers(
    nodes: u64,
    connections: &[RawConnection],
    triggers: Vec<(usize, Trigger)>,
) -> Result<ConnectionMatrix, FormatError> {
    let mut by_id: FxHashMap<u64, u32> = FxHashMap::default();
    for (place, (line, trigger)) in triggers.iter().enumerate() {
        if by_id.insert(trigger.id, place as u32).is_some() {
            return Err(FormatError::new(*line, format!("trigger {} stands twice", trigger.id), "number triggers apart"));
        }
    }
    let mut signals = vec![0u64; triggers.len()];
    let mut waiting = vec![0u64; triggers.len()];
    let mut tied = Vec::with_capacity(connections.len());
    for raw in connections {
        let find = |id: u64| {
            let help = format!("add `trigger id {id} oneshot`, or multishot, or barrier, and count it in `Triggers`");
            by_id.get(&id).copied().ok_or_else(|| FormatError::new(raw.line, format!("there is no trigger {id}"), help))
        };
        let begins_on = raw.begins_on.map(find).transpose()?;
        let sets_off = [raw.sets_off[0].map(find).transpose()?, raw.sets_off[1].map(find).transpose()?];
        begins_on.into_iter().for_each(|t| waiting[t as usize] += 1);
        sets_off.into_iter().flatten().for_each(|t| signals[t as usize] += 1);
        tied.push(Connection { flow: raw.flow, begins_on, sets_off });
    }
    for (place, (line, trigger)) in triggers.iter().enumerate() {
        check_signals(*line, trigger, signals[place], waiting[place])?;
    }
    let matrix = ConnectionMatrix { nodes, connections: tied, triggers: triggers.into_iter().map(|t| t.1).collect() };
    check_beginnings(connections, matrix)
}

/// Counts alone do not suffice: flows that wait for each other's ends never begin, nor do flows that wait for one without end.
/// Lets every flow end as soon as it begins; each trigger then sees all the ends that it can ever see.
fn check_beginnings(lines: &[RawConnection], matrix: ConnectionMatrix) -> Result<ConnectionMatrix, FormatError> {
    let mut workload = TriggeredWorkload::new(matrix);
    let mut begun = 0;
    while let Some(flow) = workload.next_flow() {
        if flow.size != Size::Infinite {
            workload.flow_ended(FlowId(begun), &flow, flow.start);
        }
        begun += 1;
    }
    let Some(&never) = workload.waiting.iter().flatten().min() else { return Ok(workload.matrix) };
    let RawConnection { line, begins_on, .. } = lines[never as usize];
    let trigger = begins_on.expect("a flow that waits has a trigger");
    let message = format!("the flow never begins: what sets off trigger {trigger} waits for it in turn, or never ends");
    let help = "let flows that have a `start` and a `size` above 0 set it off, themselves or through the flows that they begin";
    Err(FormatError::new(line, message, help))
}

/// htsim stops at a oneshot that is set off twice and at a barrier that is reached too often; a barrier that is reached too
/// seldom, and a trigger that nothing sets off, leave flows that never begin.
fn check_signals(line: usize, trigger: &Trigger, signals: u64, waiting: u64) -> Result<(), FormatError> {
    let (enough, needs) = match trigger.kind {
        TriggerKind::OneShot => (signals == 1, "exactly one flow".to_owned()),
        TriggerKind::MultiShot => (signals >= waiting, format!("{waiting} flows, one for each that waits")),
        TriggerKind::Barrier(count) => (signals == count, format!("exactly {count} flows")),
    };
    if enough || signals == 0 && waiting == 0 {
        return Ok(());
    }
    let message = format!("{signals} flows set off trigger {}, which needs {needs}", trigger.id);
    Err(FormatError::new(line, message, "correct the `send_done_trigger` and `recv_done_trigger` of the flows"))
}

/// The flows of a matrix as a workload.
struct TriggeredWorkload {
    matrix: ConnectionMatrix,
    /// Connections with starts of their own, by start; equal starts by line.
    timed: VecDeque<u32>,
    /// Connections that were begun by triggers and not yet taken.
    begun: VecDeque<(Instant, u32)>,
    /// Connections that wait, by trigger, in the order of the lines.
    waiting: Vec<VecDeque<u32>>,
    /// Ends that each trigger has seen.
    seen: Vec<u64>,
    /// The connection of each flow, by the world's number.
    taken: Vec<u32>,
}

impl TriggeredWorkload {
    fn new(matrix: ConnectionMatrix) -> Self {
        let mut waiting = vec![VecDeque::new(); matrix.triggers.len()];
        let mut timed = Vec::new();
        for (i, connection) in matrix.connections.iter().enumerate() {
            match connection.begins_on {
                Some(trigger) => waiting[trigger as usize].push_back(i as u32),
                None => timed.push(i as u32),
            }
        }
        timed.sort_by_key(|&i| matrix.connections[i as usize].flow.start);
        let seen = vec![0; matrix.triggers.len()];
        Self { matrix, timed: timed.into(), begun: VecDeque::new(), waiting, seen, taken: Vec::new() }
    }

    fn timed_start(&self) -> Option<Instant> {
        self.timed.front().map(|&i| self.matrix.connections[i as usize].flow.start)
    }

    fn set_off(&mut self, trigger: usize, now: Instant) {
        self.seen[trigger] += 1;
        let begins = match self.matrix.triggers[trigger].kind {
            TriggerKind::OneShot => self.waiting[trigger].len(),
            TriggerKind::MultiShot => 1.min(self.waiting[trigger].len()),
            TriggerKind::Barrier(count) if self.seen[trigger] == count => self.waiting[trigger].len(),
            TriggerKind::Barrier(_) => 0,
        };
        let at = self.begun.back().map_or(now, |b| b.0.max(now));
        self.begun.extend(self.waiting[trigger].drain(..begins).map(|connection| (at, connection)));
    }
}

impl Workload for TriggeredWorkload {
    fn next_start(&self) -> Option<Instant> {
        self.timed_start().into_iter().chain(self.begun.front().map(|b| b.0)).min()
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        let start = self.next_start()?;
        let connection =
            if self.timed_start() == Some(start) { self.timed.pop_front() } else { self.begun.pop_front().map(|b| b.1) }?;
        self.taken.push(connection);
        Some(FlowSpec { start, ..self.matrix.connections[connection as usize].flow })
    }

    fn flow_ended(&mut self, id: FlowId, _: &FlowSpec, now: Instant) {
        let Some(&connection) = self.taken.get(id.index()) else { return };
        for trigger in self.matrix.connections[connection as usize].sets_off.into_iter().flatten() {
            self.set_off(trigger as usize, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::flows::{HostNames, cm};
    use crate::ids::HostId;

    fn workload(text: &str) -> Box<dyn Workload> {
        cm::parse(text.as_bytes(), HostNames::numbers(16)).unwrap().workload()
    }

    fn all_now(workload: &mut dyn Workload) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| workload.next_flow()).map(|f| (f.src.0, f.start.as_ps())).collect()
    }

    fn end(workload: &mut dyn Workload, id: u32, ps: u64) {
        let spec = FlowSpec { src: HostId(0), dst: HostId(1), start: Instant::ZERO, size: crate::traffic::Size::Infinite };
        workload.flow_ended(FlowId(id), &spec, Instant::from_ps(ps));
    }

    #[test]
    fn a_multishot_begins_one_flow_an_end() {
        let mut flows = workload(
            "Nodes 16\nConnections 4\nTriggers 1\n\
             0->9 id 1 start 5 size 9 send_done_trigger 1\n1->9 id 2 start 0 size 9 send_done_trigger 1\n\
             2->9 id 3 trigger 1 size 9\n3->9 id 4 trigger 1 size 9\ntrigger id 1 multishot\n",
        );
        assert_eq!(all_now(&mut *flows), [(1, 0), (0, 5)]);
        end(&mut *flows, 1, 70);
        assert_eq!(all_now(&mut *flows), [(2, 70)]);
        end(&mut *flows, 0, 80);
        assert_eq!(flows.next_start(), Some(Instant::from_ps(80)));
        assert_eq!(all_now(&mut *flows), [(3, 80)]);
        end(&mut *flows, 2, 90);
        assert_eq!(flows.next_start(), None);
    }

    #[test]
    fn a_barrier_waits_for_all_and_a_oneshot_begins_all() {
        let mut flows = workload(
            "Nodes 16\nConnections 5\nTriggers 2\n\
             0->9 id 1 start 0 size 9 recv_done_trigger 7\n1->9 id 2 start 0 size 9 recv_done_trigger 7\n\
             2->9 id 3 trigger 7 size 9 send_done_trigger 8\n3->9 id 4 trigger 8 size 9\n4->9 id 5 trigger 8 size 9\n\
             trigger id 7 barrier count 2\ntrigger id 8 oneshot\n",
        );
        assert_eq!(all_now(&mut *flows), [(0, 0), (1, 0)]);
        end(&mut *flows, 0, 10);
        assert_eq!(all_now(&mut *flows), []);
        end(&mut *flows, 1, 20);
        assert_eq!(all_now(&mut *flows), [(2, 20)]);
        end(&mut *flows, 2, 30);
        assert_eq!(all_now(&mut *flows), [(3, 30), (4, 30)]);
    }

    #[test]
    fn triggers_that_cannot_work_are_refused() {
        let error = |body: &str, triggers: usize| {
            let connections = body.matches("->").count();
            let text = format!("Nodes 16\nConnections {connections}\nTriggers {triggers}\n{body}");
            cm::parse(text.as_bytes(), HostNames::numbers(16)).unwrap_err()
        };
        let none = error("0->1 id 1 trigger 5 size 9\n", 0);
        assert_eq!((none.line, none.message.as_str()), (4, "there is no trigger 5"));
        let never = error("0->1 id 1 trigger 5 size 9\ntrigger id 5 oneshot\n", 1);
        assert!(never.line == 5 && never.message.contains("0 flows set off"), "{never}");
        let twice = error("trigger id 5 oneshot\ntrigger id 5 oneshot\n", 2);
        assert!(twice.line == 5 && twice.message.contains("twice"), "{twice}");
        let barrier = error("0->1 start 0 size 9 send_done_trigger 5\ntrigger id 5 barrier count 3\n", 1);
        assert!(barrier.message.contains("exactly 3"), "{barrier}");
    }

    /// Lines count from the first connection.
    fn never_begins(connections: &[&str], triggers: &[&str]) -> Option<usize> {
        let (c, t) = (connections.len(), triggers.len());
        let text = format!("Nodes 16\nConnections {c}\nTriggers {t}\n{}\n{}\n", connections.join("\n"), triggers.join("\n"));
        let error = cm::parse(text.as_bytes(), HostNames::numbers(16)).err()?;
        assert!(error.message.contains("never begins"), "{error}");
        Some(error.line - 4)
    }

    #[test]
    fn flows_that_wait_for_each_other_are_refused() {
        let oneshot = ["trigger id 1 oneshot", "trigger id 2 oneshot"];
        let first = "0->1 start 0 size 9";
        assert_eq!(never_begins(&[first, "1->2 trigger 1 size 9 send_done_trigger 1"], &oneshot[..1]), Some(1));
        let two = [
            first,
            "1->2 trigger 2 size 9 send_done_trigger 1",
            "2->3 trigger 1 size 9 recv_done_trigger 2",
            "3->4 trigger 1 size 9",
        ];
        assert_eq!(never_begins(&two, &oneshot), Some(1));
        let chain =
            ["3->4 trigger 2 size 9", "1->2 trigger 1 size 9 send_done_trigger 2", "0->1 start 0 size 9 send_done_trigger 1"];
        assert_eq!(never_begins(&chain, &oneshot), None, "the order of the lines does not matter");
    }

    #[test]
    fn a_multishot_that_feeds_itself_needs_a_first_end() {
        let multishot = ["trigger id 1 multishot"];
        let ring = ["1->2 trigger 1 size 9 send_done_trigger 1", "2->3 trigger 1 size 9 send_done_trigger 1"];
        assert_eq!(never_begins(&ring, &multishot), Some(0));
        let fed = ["0->1 start 5 size 9 send_done_trigger 1", ring[0], ring[1]];
        assert_eq!(never_begins(&fed, &multishot), None, "htsim's closed loop");
    }

    #[test]
    fn a_barrier_behind_which_a_member_waits_is_refused() {
        let barrier = ["trigger id 1 barrier count 2"];
        let flows = ["0->1 start 0 size 9 send_done_trigger 1", "1->2 trigger 1 size 9 send_done_trigger 1"];
        assert_eq!(never_begins(&flows, &barrier), Some(1));
    }

    #[test]
    fn a_flow_without_end_begins_no_other() {
        let flows = ["0->1 start 0 size 0 send_done_trigger 1", "1->2 trigger 1 size 9"];
        assert_eq!(never_begins(&flows, &["trigger id 1 oneshot"]), Some(1));
    }
}
