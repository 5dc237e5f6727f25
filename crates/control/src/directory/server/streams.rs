//! What is asked on streams: everything in order of keys, what changes from now on, and how the server is.

use std::collections::{BTreeMap, VecDeque};

use super::super::front::{Access, look_up, sync};
use super::super::key::{Generation, Key, PrincipalId, Value};
use super::super::request::{Ask, Client, Request, StreamId};
use super::{Output, Reason, Server};
use crate::wire::directory::{
    Change, Entry, HEADER, Header, Kind, MAX_DATAGRAM, MAX_FRAME, Message, State, TAG, emit_key, emit_value,
};

/// Those who watch, and the changes of late.
#[derive(Debug, Default)]
pub struct Streams {
    watchers: BTreeMap<StreamId, Watcher>,
    /// In order of generations.
    changes: VecDeque<Entry>,
    /// All changes after this revision are in the list.
    since: Generation,
    /// Whether nothing was before.
    from_the_beginning: bool,
    /// What was asked before everything was loaded.
    early: Vec<Request>,
}

/// A stream that watches.
#[derive(Debug)]
struct Watcher {
    principal: PrincipalId,
    request: u64,
    /// Everything up to this revision was reported.
    reported: Generation,
    /// Whether nothing was sent yet: the first message comes at once.
    first: bool,
}

impl Streams {
    /// A stream is gone.
    pub fn close(&mut self, stream: StreamId) {
        self.watchers.remove(&stream);
        self.early.retain(|request| !matches!(request.client, Client::Stream { stream: other, .. } if other == stream));
    }

    /// Nothing is known of what changed up to this revision, but perhaps that nothing did.
    pub fn restart(&mut self, revision: Generation, from_the_beginning: bool) {
        self.changes.clear();
        (self.since, self.from_the_beginning) = (revision, from_the_beginning);
    }

    /// A key changed.
    pub fn changed(&mut self, generation: Generation, key: &Key, value: Option<&Value>) {
        let is_last = self.changes.back().is_none_or(|last| last.generation <= generation);
        let search = || self.changes.partition_point(|entry| entry.generation <= generation);
        let place = if is_last { self.changes.len() } else { search() };
        self.changes.insert(place, Entry { generation, key: *key, value: value.cloned() });
        if self.changes.len() > MAX_CHANGES
            && let Some(oldest) = self.changes.pop_front()
        {
            (self.since, self.from_the_beginning) = (self.since.max(oldest.generation), false);
        }
    }

    /// Only principals that may still watch go on.
    pub fn keep(&mut self, may: impl Fn(PrincipalId) -> bool) {
        self.watchers.retain(|_, watcher| may(watcher.principal));
    }

    /// The changes after `reported`, up to `revision`: as much as one message holds. The changes of one generation stay together.
    fn next_change(&self, reported: Generation, revision: Generation) -> Change {
        let since = if self.from_the_beginning && reported == Generation(0) { reported } else { self.since };
        let from = reported.max(since.min(revision));
        let first = self.changes.partition_point(|entry| entry.generation <= from);
        let mut change = Change { from, revision, entries: Vec::new() };
        let mut size = 0;
        for entry in self.changes.range(first..).take_while(|entry| entry.generation <= revision) {
            size += entry_size(&entry.key, entry.value.as_ref());
            let new = change.entries.last().is_none_or(|last: &Entry| last.generation != entry.generation);
            if new && size > HALF_FRAME {
                change.revision = change.entries.last().map_or(revision, |last| last.generation);
                break;
            }
            change.entries.push(entry.clone());
        }
        change
    }
}

impl Server {
    /// A request of a stream that the table answers.
    pub(super) fn serve_stream(&mut self, client: Client, principal: PrincipalId, ask: Ask) {
        let Client::Stream { stream, request } = client else {
            return self.answer_memory(client, principal, &ask);
        };
        match ask {
            Ask::List { .. } | Ask::Watch(_) if !self.following.loaded => {
                if self.streams.early.len() < MAX_EARLY {
                    self.streams.early.push(Request { client, principal, ask });
                } else {
                    self.drop(Reason::Behind);
                }
            }
            Ask::List { after, limit } => {
                let page = self.page(after.as_ref(), limit);
                self.reply(client, principal, &page);
            }
            Ask::Watch(from) => {
                self.streams.watchers.insert(stream, Watcher { principal, request, reported: from, first: true });
            }
            Ask::Status => {
                let text = self.status_text();
                self.reply(client, principal, &Message::StatusText(&text));
            }
            ask => self.answer_memory(client, principal, &ask),
        }
    }

    /// Lookups, Sync, Follow and Health of a client whose bytes did not come through a front.
    fn answer_memory(&mut self, client: Client, principal: PrincipalId, ask: &Ask) {
        match ask {
            Ask::Health => {
                let vitals = Message::Vitals(self.shared.vitals());
                self.reply(client, principal, &vitals);
            }
            Ask::Parts(it) => {
                // A copy of the bytes: the page borrows what the answer changes.
                let page = self.shared.parts_page(*it, MAX_FRAME - HEADER - TAG);
                let mut body = Vec::new();
                Message::PartsPage(page).emit(&mut body);
                self.reply_body(client, principal, Kind::PartsPage, &body);
            }
            Ask::Sync(it) => {
                let mut body = Vec::new();
                if sync(&self.shared, it, MAX_FRAME - HEADER - TAG, &mut body) {
                    self.reply_body(client, principal, Kind::Changes, &body);
                } else {
                    self.drop(Reason::Behind);
                }
            }
            Ask::Follow(it) => match self.shared.follow(it, MAX_DATAGRAM - HEADER - TAG) {
                Some(page) => self.reply(client, principal, &Message::Withdrawn(page)),
                None => self.drop(Reason::Behind),
            },
            Ask::Lookup(body) => {
                let Ok(Message::Lookup(it)) = Message::parse(Kind::Lookup, body) else {
                    return self.drop(Reason::Malformed);
                };
                let table = &self.shared.table;
                let asker = it.asker.map(|key| (key, table.probe(&key)));
                let access = Access::of(&self.shared, principal, asker.as_ref().map(|(key, probe)| (key, probe)));
                if access == Access::Pending {
                    self.wanted.extend(it.asker.map(|asker| (principal, asker)));
                }
                let probes: Vec<_> = it.keys().map(|key| table.probe(&key)).collect();
                let mut answer = Vec::new();
                look_up(&self.shared, access, &it, &probes, MAX_FRAME - HEADER - TAG, &mut answer);
                self.reply_body(client, principal, Kind::Answer, &answer);
            }
            _ => self.drop(Reason::Unexpected),
        }
    }

    /// On streams only: a datagram's answer is bound to the length of its question, and is the front's.
    fn reply_body(&mut self, client: Client, principal: PrincipalId, kind: Kind, body: &[u8]) {
        let Client::Stream { stream, request } = client else {
            return self.drop(Reason::Unexpected);
        };
        let mut message = Vec::with_capacity(HEADER + body.len());
        Header { kind, principal, cookie: 0, request }.emit(&mut message);
        message.extend_from_slice(body);
        self.outputs.push_back(Output::Reply { stream, principal, message });
    }

    fn page(&self, after: Option<&Key>, limit: u16) -> Message<'static> {
        let (mut entries, mut size, mut more) = (Vec::new(), 0, false);
        for (key, found) in self.shared.table.after(after) {
            let value = found.value.to_value();
            size += entry_size(&key, Some(&value));
            if entries.len() >= usize::from(limit.max(1)) || size > HALF_FRAME {
                more = true;
                break;
            }
            entries.push(Entry { generation: found.generation, key, value: Some(value) });
        }
        Message::Page { revision: self.shared.revision, more, entries }
    }

    /// Sends to those who watch the changes that they have not received.
    pub(super) fn notify_watchers(&mut self) {
        if !self.following.loaded {
            return;
        }
        for request in std::mem::take(&mut self.streams.early) {
            self.serve_stream(request.client, request.principal, request.ask);
        }
        let revision = self.shared.revision;
        for (&stream, watcher) in &self.streams.watchers {
            let (mut reported, mut first) = (watcher.reported, watcher.first);
            while reported < revision || first {
                let change = self.streams.next_change(reported, revision);
                reported = change.revision.max(reported);
                if !change.entries.is_empty() || first || change.from > watcher.reported {
                    let mut message = Vec::new();
                    Header { kind: Kind::Events, principal: watcher.principal, cookie: 0, request: watcher.request }
                        .emit(&mut message);
                    Message::Events(change).emit(&mut message);
                    self.outputs.push_back(Output::Reply { stream, principal: watcher.principal, message });
                }
                first = false;
            }
        }
        for watcher in self.streams.watchers.values_mut() {
            (watcher.reported, watcher.first) = (watcher.reported.max(revision), false);
        }
    }

    /// A JSON object of what the machine knows of itself.
    pub fn status_text(&self) -> String {
        let (shared, counters) = (&self.shared, &self.counters);
        let state = match shared.state {
            State::Loading => "loading",
            State::Serving => "serving",
            State::StoreLost => "store_lost",
            State::Leaving => "leaving",
        };
        let (queued, under_way) = self.load();
        format!(
            concat!(
                "{{\"state\":\"{}\",\"replica\":{},\"part\":{},\"revision\":{},\"policy\":{},\"entries\":{},\"hash\":\"{:016x}\",\"table_bytes\":{},\"purged\":{},",
                "\"updates_queued\":{},\"commits_under_way\":{},\"updates\":{},\"commits\":{},\"committed_ops\":{},\"commit_conflicts\":{},",
                "\"commit_failures\":{},\"loads\":{},\"corrections\":{},\"disseminated\":{},\"watchers\":{},\"subscribers\":{},\"pushes\":{},\"askers\":{},\"denied\":{}}}"
            ),
            state,
            self.config.replica,
            // A part's name has nothing that JSON escapes.
            self.config.part.as_ref().map_or("null".to_owned(), |part| format!("\"{part}\"")),
            shared.revision.0,
            shared.policy.version(),
            shared.table.len(),
            shared.table.hash(),
            shared.table.bytes(),
            self.purged().0,
            queued,
            under_way,
            counters.updates,
            counters.commits,
            counters.committed_ops,
            counters.conflicts,
            counters.failures,
            counters.loads,
            counters.corrections,
            counters.disseminated,
            self.streams.watchers.len(),
            self.subscribers(),
            counters.pushes,
            shared.askers.len(),
            shared.denied.len(),
        )
    }
}

fn entry_size(key: &Key, value: Option<&Value>) -> usize {
    let mut bytes = Vec::with_capacity(64);
    emit_key(key, &mut bytes);
    match value {
        Some(value) => emit_value(value, &mut bytes),
        None => bytes.push(0),
    }
    bytes.len() + 8
}

/// Changes remembered at most.
const MAX_CHANGES: usize = 1 << 14;

/// Requests that wait for the first load to end.
const MAX_EARLY: usize = 256;

/// What lists and events fill a frame to, so that the changes of one commit (128 of the longest are 41,000 bytes) do not overflow it.
const HALF_FRAME: usize = MAX_FRAME / 3;
