//! Events as a scenario lists them.

use weft_fabric::Instant;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A part fails, and its neighbours notice at once.
    Fail,
    /// A part loses all packets, and its ports stay up.
    FailSilent,
    /// A part works again.
    Restore,
    /// A program is killed.
    Kill,
    /// A program is started again; it is killed before, if it runs.
    Restart,
    /// A server moves to another ToR, `host h1 to tor2`, or a VM to another host, `vm acme-web1 to h3`.
    Move,
    /// A VM sends forged frames: `vm acme-web1`.
    Forge,
}

/// An event of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct EventSpec<'a> {
    /// When.
    pub at: Instant,
    /// What.
    pub verb: Verb,
    /// The part, program or node that it concerns.
    pub object: &'a str,
}
