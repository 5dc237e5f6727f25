//! What agents, writers and servers do that a caller can see.

use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::request::StreamId;
use weft_control::directory::resolver::Resolution;
use weft_control::directory::{Generation, Key, PrincipalId};
use weft_control::wire::directory::{Finding, Kind};

/// A result that a node received.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// An agent's lookup has ended.
    Resolved {
        /// The agent.
        agent: u16,
        /// As it was given.
        token: u64,
        /// The key.
        key: Key,
        /// On whose behalf.
        asker: Option<Key>,
        /// How.
        resolution: Resolution,
    },
    /// An agent must not use a mapping any longer.
    Invalidated {
        /// The agent.
        agent: u16,
        /// The key.
        key: Key,
        /// On whose behalf it was looked up.
        asker: Option<Key>,
    },
    /// A writer's update has ended.
    Done {
        /// The writer.
        writer: u16,
        /// As it was given.
        token: u64,
        /// How.
        result: UpdateResult,
    },
    /// A server answered a lookup (with `watch_answers`).
    Answered {
        /// The server.
        server: u16,
        /// Who asked.
        principal: PrincipalId,
        /// On whose behalf.
        asker: Option<Key>,
        /// How far the server knew everything.
        revision: Generation,
        /// The version of its policy.
        policy: u32,
        /// The keys and what was said of them.
        findings: Vec<(Key, Generation, Finding)>,
    },
    /// A server corrected an agent (with `watch_answers`).
    Corrected {
        /// The server.
        server: u16,
        /// Whose agent.
        principal: PrincipalId,
        /// The key.
        key: Key,
        /// Since when.
        generation: Generation,
        /// What it is.
        finding: Finding,
    },
    /// An operator received a message on a stream.
    StreamMessage {
        /// The operator.
        operator: u16,
        /// The stream.
        stream: StreamId,
        /// The request that it answers.
        request: u64,
        /// Its kind.
        kind: Kind,
        /// Its body.
        body: Vec<u8>,
    },
    /// An operator's stream ended, and the operator did not close it.
    StreamBroken {
        /// The operator.
        operator: u16,
        /// The stream.
        stream: StreamId,
    },
}
