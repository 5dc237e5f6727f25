//! The other servers: what this one committed is sent to them at once (VL2, section 4.3.2), and twice a minute it compares what it holds with one of them.
//!
//! All this is for speed and safety only: a datagram that is lost is made good by the watch.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rand::RngExt;

use super::super::OLDER_VERSION;
use super::super::auth::{Secret, Tagger};
use super::super::key::{Generation, PrincipalId};
use super::super::request::Client;
use super::super::store::StoreOp;
use super::{Output, ReloadReason, Server, ServerConfig};
use crate::time::{Duration, Instant};
use crate::wire::directory::{
    Commit, Commits, Digest, HEADER, Header, Kind, MAX_DATAGRAM, Message, TAG, Versions, emit_key, emit_record,
};

/// The other servers.
#[derive(Debug)]
pub struct Peers {
    me: PrincipalId,
    tagger: Tagger,
    peers: Vec<Peer>,
    digest_every: Duration,
    digest_at: Option<Instant>,
    versions: Versions,
}

/// One of them.
#[derive(Debug)]
struct Peer {
    at: SocketAddr,
    /// What it gave us; 0: nothing yet.
    cookie: u64,
    request: u64,
    /// What was sent last, for it may be challenged.
    sent: VecDeque<Sent>,
    /// Until when it is sent the older version of the protocol, which it asked for.
    older_until: Option<Instant>,
}

#[derive(Debug)]
struct Sent {
    request: u64,
    kind: Kind,
    body: Vec<u8>,
    tries: u32,
}

impl Peers {
    /// Those of a server.
    pub fn new(config: &ServerConfig, secret: &Secret) -> Self {
        let peer = |&at| Peer { at, cookie: 0, request: 0, sent: VecDeque::new(), older_until: None };
        let (me, peers) = (config.me, config.peers.iter().map(peer).collect());
        let tagger = secret.key_of(me).tagger();
        Self { me, tagger, peers, digest_every: config.digest_every, digest_at: None, versions: config.versions }
    }

    /// What is sent from now on has the tag of another key.
    pub fn set_key(&mut self, secret: &Secret) {
        self.tagger = secret.key_of(self.me).tagger();
    }

    /// When a digest is to be sent.
    pub fn next_digest(&self) -> Option<Instant> {
        self.digest_at.filter(|_| !self.peers.is_empty())
    }

    fn send(&mut self, now: Instant, peer: usize, kind: Kind, body: Vec<u8>, tries: u32) -> Output {
        let peer = &mut self.peers[peer];
        peer.request += 1;
        peer.older_until = peer.older_until.filter(|&until| now < until);
        let version = if peer.older_until.is_some() { self.versions.oldest() } else { self.versions.newest() };
        let mut bytes = Vec::with_capacity(HEADER + body.len() + TAG);
        Header { kind, principal: self.me, cookie: peer.cookie, request: peer.request }.emit_as(version, &mut bytes);
        bytes.extend_from_slice(&body);
        self.tagger.seal(&mut bytes, 0);
        peer.sent.push_back(Sent { request: peer.request, kind, body, tries });
        if peer.sent.len() > MAX_SENT {
            peer.sent.pop_front();
        }
        Output::Send { to: peer.at, bytes }
    }
}

impl Server {
    /// Sends a message to all peers.
    pub(super) fn notify_peers(&mut self, now: Instant, message: &Message<'_>) {
        let mut body = Vec::new();
        message.emit(&mut body);
        for peer in 0..self.peers.peers.len() {
            let output = self.peers.send(now, peer, message.kind(), body.clone(), 0);
            self.outputs.push_back(output);
        }
    }

    /// Sends all peers what was committed, in as many datagrams as it takes. Only one that holds all of the commit can say that nothing else
    /// is between.
    pub(super) fn disseminate(&mut self, now: Instant, revision: Generation, complete: bool, ops: &[StoreOp]) {
        if self.peers.peers.is_empty() {
            return;
        }
        let room = MAX_DATAGRAM - HEADER - TAG - EMPTY_COMMITS;
        let mut parts: Vec<Vec<Commit>> = Vec::new();
        let mut left = 0;
        let mut bytes = Vec::new();
        for op in ops {
            bytes.clear();
            emit_key(&op.key, &mut bytes);
            emit_record(&op.record, &mut bytes);
            let size = bytes.len() + 8;
            if size > left || parts.is_empty() {
                parts.push(Vec::new());
                left = room;
            }
            left = left.saturating_sub(size);
            let part = parts.last_mut().expect("there is one");
            part.push(Commit { generation: revision, key: op.key, record: op.record.clone() });
        }
        let (from, to) =
            if complete && parts.len() == 1 { (Generation(revision.0 - 1), revision) } else { (Generation(0), Generation(0)) };
        for commits in parts {
            self.notify_peers(now, &Message::Commits(Commits { from, revision: to, commits }));
        }
    }

    /// What a peer committed.
    pub(super) fn disseminated(&mut self, now: Instant, commits: &Commits) {
        // Before the first load ends there is nothing that it could be added to; the load or the watch will have it.
        if !self.following.loaded {
            return;
        }
        for Commit { generation, key, record } in &commits.commits {
            self.learn(now, key, *generation, record);
        }
        self.counters.disseminated += commits.commits.len() as u64;
        if commits.from <= self.shared.revision {
            self.shared.revision = self.shared.revision.max(commits.revision);
        }
    }

    /// Sends a digest to one of the peers when it is time, if what is held is that of one revision.
    pub(super) fn send_digest(&mut self, now: Instant) {
        let due = *self.peers.digest_at.get_or_insert(now.saturating_add(self.peers.digest_every));
        if due > now || self.peers.peers.is_empty() {
            return;
        }
        self.peers.digest_at = Some(now.saturating_add(self.peers.digest_every));
        let peer = self.rng.random_range(0..self.peers.peers.len());
        if self.is_exact() {
            let mut body = Vec::new();
            Message::Digest(self.own_digest()).emit(&mut body);
            let output = self.peers.send(now, peer, Kind::Digest, body, 0);
            self.outputs.push_back(output);
        }
    }

    /// A peer's digest: it is compared, and answered.
    pub(super) fn digest(&mut self, now: Instant, client: Client, principal: PrincipalId, digest: Digest) {
        if self.is_exact() {
            let own = Message::DigestAnswer(self.own_digest());
            self.reply(client, principal, &own);
            self.compare(now, digest);
        }
    }

    /// The same revision and other entries: one of the two is wrong, so both reload.
    pub(super) fn compare(&mut self, now: Instant, digest: Digest) {
        let own = self.own_digest();
        if self.is_exact() && digest.revision == own.revision && digest != own {
            self.reload(now, ReloadReason::Diverged);
        }
    }

    /// A peer gave us a cookie, or does not speak our newest version: what it did not take is sent again.
    pub(super) fn sent_again(&mut self, now: Instant, client: Client, unsupported: bool) {
        let Client::Datagram { at, cookie, request } = client else { return };
        let Some(peer) = self.peers.peers.iter().position(|peer| peer.at == at) else { return };
        let known = &mut self.peers.peers[peer];
        // Only to what we sent: a recorded Challenge reveals nothing.
        let Some(place) = known.sent.iter().position(|sent| sent.request == request) else { return };
        let Some(sent) = known.sent.remove(place) else { return };
        known.cookie = cookie;
        if unsupported {
            known.older_until.get_or_insert(now.saturating_add(OLDER_VERSION));
        }
        if sent.tries < MAX_TRIES {
            let output = self.peers.send(now, peer, sent.kind, sent.body, sent.tries + 1);
            self.outputs.push_back(output);
        }
    }

    fn own_digest(&self) -> Digest {
        Digest { revision: self.shared.revision, entries: self.shared.table.len() as u64, hash: self.shared.table.hash() }
    }
}

/// The bytes of a Commits message's body without commits.
const EMPTY_COMMITS: usize = 17;

/// Messages to a peer that can still be sent again.
const MAX_SENT: usize = 64;

/// How often a message is sent again.
const MAX_TRIES: u32 = 3;
