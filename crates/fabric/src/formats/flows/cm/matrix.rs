//! A connection matrix as a plain value.

use crate::traffic::FlowSpec;

/// A file's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionMatrix {
    /// Hosts of the network that the matrix was made for.
    pub nodes: u64,
    /// In the order of the lines.
    pub connections: Vec<Connection>,
    /// In the order of the lines.
    pub triggers: Vec<Trigger>,
}

/// A flow and what begins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The flow. Its start is 0 where a trigger begins it.
    pub flow: FlowSpec,
    /// The trigger that begins it, by place in [`ConnectionMatrix::triggers`].
    pub begins_on: Option<u32>,
    /// The triggers that its end sets off: htsim distinguishes the sender's end from the receiver's; here they are one.
    pub sets_off: [Option<u32>; 2],
}

/// What ends of flows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Its number in the file.
    pub id: u64,
    /// What it does.
    pub kind: TriggerKind,
}

/// What a trigger does with the flows that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerKind {
    /// The first end begins all of them.
    OneShot,
    /// Each end begins the next of them.
    MultiShot,
    /// So many ends, together, begin all of them.
    Barrier(u64),
}

impl ConnectionMatrix {
    /// Whether some flow waits for the end of another.
    pub fn has_triggers(&self) -> bool {
        self.connections.iter().any(|c| c.begins_on.is_some())
    }

    /// The flows, in the order of the lines; those that a trigger begins start at 0 here.
    pub fn flows(&self) -> Vec<FlowSpec> {
        self.connections.iter().map(|c| c.flow).collect()
    }
}

/// A connection with the numbers of its triggers, before the triggers are known.
pub(super) struct RawConnection {
    pub(super) line: usize,
    pub(super) flow: FlowSpec,
    pub(super) begins_on: Option<u64>,
    pub(super) sets_off: [Option<u64>; 2],
}
