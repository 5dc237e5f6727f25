//! What the daemon knows: a session for each connection, the network of all switches. No I/O but the writers of connections.

use std::collections::BTreeMap;

use weft_control::openflow::network::{Input, OpenFlowNetwork, Output};
use weft_control::openflow::session::{Input as SessionInput, Output as SessionOutput};
use weft_control::openflow::{Body, ControllerRole, Features, Message, ParseError, Role, Session, Version};
use weft_control::time::{Duration, Instant};
use weft_fabric::SwitchId;

use crate::connections::{ConnectionId, Event, QUEUE, QUEUE_UNKNOWN, Writer};
use crate::leader::{Change, ElectionState, Leadership};

/// Sessions and network.
pub(crate) struct Core {
    /// Of a standby: one of which no switch has come.
    pub network: OpenFlowNetwork,
    /// Makes a network that knows nothing yet, of a generation.
    make_network: Box<dyn Fn(u64) -> OpenFlowNetwork>,
    /// Whether this scheduler leads, if that is decided by an election.
    pub election: Option<ElectionState>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// The connection of each switch.
    by_switch: BTreeMap<SwitchId, ConnectionId>,
    /// Datapaths that are no switch of the fabric: the last [`STRANGERS`] at most.
    strangers: BTreeMap<u64, Stranger>,
    /// Malformed messages, and connections that ended for a fault of the switch.
    pub faults: u64,
    /// Connections that did not come to be.
    refused: u64,
}

/// A connection.
pub(crate) struct Connection {
    session: Session,
    writer: Writer,
    pub peer: String,
    pub switch: Option<(SwitchId, Version)>,
    /// Messages that could not be read.
    malformed: u64,
}

/// A datapath that is no switch of the fabric.
#[derive(Clone, Copy, Debug)]
struct Stranger {
    times: u64,
    last: Instant,
}

impl Core {
    /// Of this generation; without one, an election decides when it leads, and with which.
    pub fn new(make_network: Box<dyn Fn(u64) -> OpenFlowNetwork>, generation: Option<u64>) -> Self {
        Self {
            network: make_network(generation.unwrap_or(0)),
            make_network,
            election: generation.is_none().then(ElectionState::default),
            connections: BTreeMap::new(),
            by_switch: BTreeMap::new(),
            strangers: BTreeMap::new(),
            faults: 0,
            refused: 0,
        }
    }

    /// Takes an event of a connection.
    pub fn event(&mut self, now: Instant, event: Event) {
        self.end_late_leadership(now);
        match event {
            Event::Opened(id, writer, peer) => {
                self.connections.insert(id, Connection { session: Session::new(now), writer, peer, switch: None, malformed: 0 });
                self.run_session(now, id);
            }
            Event::Received(id, bytes) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.session.handle(now, SessionInput::Received(&bytes));
                    self.run_session(now, id);
                }
            }
            Event::Closed(id, reason) => self.close(now, id, &reason),
            Event::Refused(peer, reason) => {
                self.faults += 1;
                // Somebody who tries often does not fill the log.
                self.refused += 1;
                if self.refused.is_power_of_two() {
                    tracing::warn!(peer, reason, number = self.refused, "a connection was refused");
                }
            }
        }
        self.run_network(now);
    }

    /// Runs whatever is due.
    pub fn timer(&mut self, now: Instant) {
        self.end_late_leadership(now);
        let due = |c: &Connection| c.session.deadline().is_some_and(|deadline| deadline <= now);
        let due: Vec<ConnectionId> = self.connections.iter().filter(|(_, c)| due(c)).map(|(&id, _)| id).collect();
        for id in due {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.session.handle(now, SessionInput::Timer);
                self.run_session(now, id);
            }
        }
        if self.leads() && self.network.deadline().is_some_and(|deadline| deadline <= now) {
            self.network.handle(now, Input::Timer);
        }
        self.run_network(now);
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Instant> {
        let sessions = self.connections.values().filter_map(|c| c.session.deadline());
        let network = self.network.deadline().filter(|_| self.leads());
        let until = self.election.as_ref().and_then(ElectionState::deadline);
        sessions.chain(network).chain(until).min()
    }

    /// The sessions that are up, by switch.
    pub fn sessions(&self) -> impl Iterator<Item = (SwitchId, Version, &str)> {
        self.by_switch.values().filter_map(|id| self.connections.get(id)).filter_map(|connection| {
            let (switch, version) = connection.switch?;
            Some((switch, version, connection.peer.as_str()))
        })
    }

    /// Datapaths that are no switch of the fabric and connected lately, each with how often it did.
    pub fn strangers(&self, now: Instant) -> impl Iterator<Item = (u64, u64)> {
        let lately = self.strangers.iter().filter(move |(_, stranger)| stranger.is_recent(now));
        lately.map(|(&datapath, stranger)| (datapath, stranger.times))
    }

    /// Does what a session wants.
    fn run_session(&mut self, now: Instant, id: ConnectionId) {
        while let Some(connection) = self.connections.get_mut(&id) {
            let Some(output) = connection.session.poll() else { return };
            match output {
                SessionOutput::Send(bytes) => {
                    let limit = if connection.switch.is_some() { QUEUE } else { QUEUE_UNKNOWN };
                    if !connection.writer.send(bytes, limit) {
                        self.faults += 1;
                        self.close(now, id, "it does not read what it is sent");
                    }
                }
                SessionOutput::Up { version, features } => self.up(now, id, version, &features),
                SessionOutput::Message(message) => self.received(now, id, message),
                SessionOutput::Malformed { xid, error } => {
                    connection.malformed += 1;
                    let (number, switch) = (connection.malformed, connection.switch);
                    self.malformed(now, switch, xid, number, error);
                }
                SessionOutput::Unsent { error, .. } => tracing::error!(%error, "a message was not sent"),
                SessionOutput::Closed(reason) => {
                    self.faults += 1;
                    self.close(now, id, &reason.to_string());
                }
            }
        }
    }

    fn up(&mut self, now: Instant, id: ConnectionId, version: Version, features: &Features) {
        let datapath = features.datapath;
        let Some(switch) = self.network.identities().switch_of(datapath) else {
            self.strangers.retain(|_, stranger| stranger.is_recent(now));
            if self.strangers.len() < STRANGERS || self.strangers.contains_key(&datapath) {
                let stranger = self.strangers.entry(datapath).or_insert(Stranger { times: 0, last: now });
                *stranger = Stranger { times: stranger.times + 1, last: now };
            }
            self.close(now, id, &format!("datapath {datapath:016x} is no switch of the fabric"));
            return;
        };
        if features.auxiliary != 0 {
            self.close(now, id, "it is an auxiliary connection, which is not used");
            return;
        }
        if let Some(&old) = self.by_switch.get(&switch) {
            // It has come again before its old connection was found dead.
            self.close(now, old, "the switch has connected again");
        }
        self.by_switch.insert(switch, id);
        let name = self.name(switch);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.switch = Some((switch, version));
        tracing::info!(switch = name, %version, peer = connection.peer, "switch connected");
        if self.leads() {
            self.network.handle(now, Input::Up(switch, version));
        } else {
            self.ask_for_slave(now, id);
        }
    }

    fn received(&mut self, now: Instant, id: ConnectionId, message: Message) {
        if let Some((switch, _)) = self.connections.get(&id).and_then(|c| c.switch).filter(|_| self.leads()) {
            self.network.handle(now, Input::Received(switch, message));
        }
    }

    /// Drops the message of this number that cannot be read.
    fn malformed(&mut self, now: Instant, switch: Option<(SwitchId, Version)>, xid: u32, number: u64, error: ParseError) {
        self.faults += 1;
        let Some((switch, _)) = switch else { return };
        // A switch that sends many does not fill the log.
        if number.is_power_of_two() {
            tracing::warn!(switch = self.name(switch), number, %error, "a malformed message was dropped");
        }
        if self.leads() {
            self.network.handle(now, Input::Unreadable(switch, xid));
        }
    }

    fn close(&mut self, now: Instant, id: ConnectionId, reason: &str) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let Some((switch, _)) = connection.switch else {
            tracing::warn!(peer = connection.peer, reason, "a connection ended");
            return;
        };
        if self.by_switch.get(&switch) == Some(&id) {
            self.by_switch.remove(&switch);
            tracing::warn!(switch = self.name(switch), reason, "switch gone: its rules stay");
            if self.leads() {
                self.network.handle(now, Input::Down(switch));
            }
        }
    }

    /// Does what the network wants.
    fn run_network(&mut self, now: Instant) {
        while let Some(output) = self.network.poll() {
            match output {
                Output::Send(switch, message) => {
                    let Some(&id) = self.by_switch.get(&switch) else { continue };
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.session.handle(now, SessionInput::Send(message));
                        self.run_session(now, id);
                    }
                }
                Output::Refused(switch, error) => {
                    tracing::warn!(
                        switch = self.name(switch),
                        kind = error.kind,
                        code = error.code,
                        "the switch refused a message"
                    );
                }
            }
        }
    }

    /// Whether it schedules.
    pub fn leads(&self) -> bool {
        self.election.as_ref().is_none_or(ElectionState::leads)
    }

    /// The election has said something; `clock` makes its times those of `now`.
    pub fn update_leadership(&mut self, now: Instant, leadership: Leadership, clock: impl Fn(std::time::Instant) -> Instant) {
        let change = self.election.as_mut().and_then(|election| election.update(now, leadership, clock));
        self.change_leadership(now, change);
        self.run_network(now);
    }

    fn end_late_leadership(&mut self, now: Instant) {
        let change = self.election.as_mut().and_then(|election| election.end_late_leadership(now));
        self.change_leadership(now, change);
    }

    fn change_leadership(&mut self, now: Instant, change: Option<Change>) {
        match change {
            Some(Change::Leads(generation)) => self.start_network(now, generation),
            Some(Change::Follows) => self.stop_network(now),
            None => {}
        }
    }

    /// Begins with what the switches have: state is soft.
    fn start_network(&mut self, now: Instant, generation: u64) {
        self.network = (self.make_network)(generation);
        let switches: Vec<(SwitchId, Version)> = self.sessions().map(|(switch, version, _)| (switch, version)).collect();
        for (switch, version) in switches {
            self.network.handle(now, Input::Up(switch, version));
        }
    }

    fn stop_network(&mut self, now: Instant) {
        self.network = (self.make_network)(0);
        let connections: Vec<ConnectionId> = self.by_switch.values().copied().collect();
        connections.into_iter().for_each(|id| self.ask_for_slave(now, id));
    }

    /// A standby reads nothing and writes nothing: the switch need not send it what it sends the leader. A refusal changes nothing.
    fn ask_for_slave(&mut self, now: Instant, id: ConnectionId) {
        let Some(generation) = self.election.as_ref().map(|election| election.generation).filter(|&g| g > 0) else { return };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let role = Role { role: ControllerRole::Slave, short_id: None, generation };
        let message = Message { xid: connection.session.allocate_xid(), body: Body::RoleRequest(role) };
        connection.session.handle(now, SessionInput::Send(message));
        self.run_session(now, id);
    }

    fn name(&self, switch: SwitchId) -> String {
        let fabric = self.network.identities().fabric();
        fabric.node(fabric.switch_node(switch)).name.to_string()
    }
}

impl Stranger {
    fn is_recent(self, now: Instant) -> bool {
        now.saturating_since(self.last) < RECENT
    }
}

/// Datapaths that are no switch of the fabric and are remembered, at most.
const STRANGERS: usize = 64;
/// How long they are remembered: a switch tries again within seconds.
const RECENT: Duration = Duration::from_secs(60);
