//! What an agent holds, and when it may use it.
//!
//! ```text
//!                 accept Found                       lease over, withdrawn
//!   (nothing) ------------------> found: usable --------------------------> floor: only its generation counts
//!        |                        |  ^                                        |
//!        | accept Unknown,        |  | accept                reconfirm:       | accept what is not older
//!        v        Forbidden       v  |                       usable 500 ms    v
//!      negative: usable for a moment                                        found, negative
//! ```
//! Entries are by key *and asker*: what one asker may know another may not, and when the asker's own mapping is withdrawn, so is all that it was
//! allowed by it. Kept here:
//! 1. An older generation never replaces a newer one, also after eviction (`forgotten`).
//! 2. Nothing that came under an older policy than the newest seen is usable for longer than the reconfirmation takes.
//!
//! The capacity counts peers: mappings that were found. This host's own addresses (an asker that looks itself up) and groups are never evicted, and
//! refused and expired names have room of their own: else a small capacity would evict what every packet needs.

use std::collections::{BTreeMap, BTreeSet};

use weft_fabric::rng::mix;

use crate::directory::interest::{Interest, key_hash, key_name};
use crate::directory::key::{Generation, Key, Value};
use crate::time::{Duration, Instant};
use crate::wire::directory::Finding;

/// What is looked up, and for whom.
pub(super) type Name = (Key, Option<Key>);

/// A server's word on a key.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// How far the server knew everything.
    pub revision: Generation,
    pub policy: u32,
    pub generation: Generation,
    pub finding: Finding,
    /// When the question was sent: it is true of some moment after.
    pub asked: Instant,
}

/// What became of a server's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is older than what is known.
    Stale,
    /// Accepted; nothing that was in use changed.
    Taken,
    /// Accepted; what was in use before must not be used any longer.
    Replaced,
}

#[derive(Clone, Debug)]
enum Held {
    Found(Value),
    Unknown,
    Forbidden,
    /// Nothing usable: what comes next must be at least of this generation.
    Floor,
}

#[derive(Clone, Debug)]
struct Entry {
    held: Held,
    generation: Generation,
    /// How far the server that said it knew everything.
    revision: Generation,
    policy: u32,
    /// When it was last confirmed by an answer.
    heard: Instant,
    /// Not usable from then on unless confirmed: of negatives, and of what is to be reconfirmed.
    until: Instant,
    /// Asked for since the hand last passed.
    used: bool,
}

/// How long a mapping may be used without word of it.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// When the directory last said that all leases restart.
    renewed: Instant,
    /// While no server answers, at least so long, however short the lease.
    fail_static: Duration,
}

impl Terms {
    /// When a mapping that was confirmed then ends.
    fn end(self, heard: Instant, value: &Value) -> Instant {
        heard.max(self.renewed).saturating_add(lease(value).max(self.fail_static))
    }
}

/// The cache of an agent.
#[derive(Debug)]
pub(super) struct Cache {
    entries: BTreeMap<Name, Entry>,
    capacity: usize,
    negative: Duration,
    /// All askers of entries, past ones too.
    askers: BTreeSet<Key>,
    /// Found entries among them.
    found: usize,
    /// Peers among those: what the capacity counts.
    peers: usize,
    terms: Terms,
    /// No lease ends before.
    leases: Instant,
    /// Where eviction goes on: of peers, and of what is not usable.
    hands: [Option<Name>; 2],
    /// By hash of the key: the greatest generation that was evicted.
    forgotten: Vec<Generation>,
    /// Found entries that were evicted: they are renewed no more, so their users must be notified.
    evicted: Vec<Name>,
    /// How many that were in all.
    evictions: u64,
}

impl Cache {
    pub fn new(capacity: usize, negative: Duration, fail_static: Duration) -> Self {
        Self {
            entries: BTreeMap::new(),
            askers: BTreeSet::new(),
            capacity,
            negative,
            found: 0,
            peers: 0,
            terms: Terms { renewed: Instant::ZERO, fail_static },
            leases: Instant::MAX,
            hands: [None; 2],
            forgotten: Vec::new(),
            evicted: Vec::new(),
            evictions: 0,
        }
    }

    pub const fn found(&self) -> usize {
        self.found
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Peers that are held.
    pub const fn peers(&self) -> usize {
        self.peers
    }

    /// Peers evicted so far because the capacity was reached.
    pub const fn evictions(&self) -> u64 {
        self.evictions
    }

    /// The finding for a name, if it may be used now.
    pub fn get(&mut self, name: &Name, now: Instant) -> Option<(Generation, Finding)> {
        let terms = self.terms;
        let entry = self.entries.get_mut(name)?;
        entry.used = true;
        let finding = entry.usable(now, terms)?;
        Some((entry.generation, finding))
    }

    /// The value for a name, if there is one that may be used now.
    pub fn found_value(&self, name: &Name, now: Instant) -> Option<(Generation, &Value)> {
        let entry = self.entries.get(name).filter(|entry| entry.is_usable(now, self.terms))?;
        match &entry.held {
            Held::Found(value) => Some((entry.generation, value)),
            _ => None,
        }
    }

    /// All that may be used now, in order.
    pub fn usable(&self, now: Instant) -> impl Iterator<Item = (Name, Generation, &Value)> {
        let terms = self.terms;
        self.entries.iter().filter(move |(_, e)| e.is_usable(now, terms)).filter_map(|(name, e)| match &e.held {
            Held::Found(value) => Some((*name, e.generation, value)),
            _ => None,
        })
    }

    /// Names of all found entries, in order.
    pub fn found_names(&self) -> Vec<Name> {
        self.entries.iter().filter(|(_, e)| matches!(e.held, Held::Found(_))).map(|(name, _)| *name).collect()
    }

    /// Takes a server's word, unless it is older than what is known.
    pub fn accept(&mut self, name: Name, said: &Said, now: Instant) -> Verdict {
        if !self.is_news(&name, said) {
            return Verdict::Stale;
        }
        let held = match &said.finding {
            Finding::Found(value) => Held::Found(value.clone()),
            Finding::Unknown => Held::Unknown,
            Finding::Forbidden => Held::Forbidden,
            Finding::Elsewhere => return Verdict::Stale,
        };
        let is_found = matches!(held, Held::Found(_));
        if let Held::Found(value) = &held {
            self.leases = self.leases.min(self.terms.end(said.asked, value));
        }
        let until = if is_found { Instant::MAX } else { now.saturating_add(self.negative) };
        let terms = self.terms;
        let old = self.entries.get(&name);
        let generation = match old {
            Some(old) if !is_found => old.generation.max(said.generation),
            _ => said.generation,
        };
        let replaced = old.is_some_and(|old| {
            old.is_usable(now, terms)
                && match (&old.held, &held) {
                    (Held::Found(old), Held::Found(new)) => old != new,
                    (Held::Found(_), _) => true,
                    _ => false,
                }
        });
        let entry =
            Entry { held, generation, revision: said.revision, policy: said.policy, heard: said.asked, until, used: true };
        self.put(name, entry);
        if replaced { Verdict::Replaced } else { Verdict::Taken }
    }

    fn is_news(&self, name: &Name, said: &Said) -> bool {
        let reaches = |floor: Generation| said.generation >= floor || said.revision >= floor;
        let Some(old) = self.entries.get(name) else { return reaches(self.floor_of(&name.0)) };
        match (&old.held, &said.finding) {
            (_, Finding::Elsewhere) => false,
            (Held::Found(_) | Held::Floor, Finding::Found(_)) if said.generation < old.generation => {
                // Only if nothing was said of this key itself at the greater generation.
                matches!(old.held, Held::Floor) && said.revision >= old.generation
            }
            (_, Finding::Found(_)) => reaches(old.generation),
            // A newer policy takes away what an older one gave, however old the server's revision is.
            (_, Finding::Forbidden) if said.policy > old.policy => true,
            (_, Finding::Unknown | Finding::Forbidden) => reaches(old.generation),
        }
    }

    fn put(&mut self, name: Name, entry: Entry) {
        if self.capacity == 0 {
            return;
        }
        self.askers.extend(name.1);
        self.count(&name, &entry.held, true);
        if let Some(old) = self.entries.insert(name, entry) {
            self.count(&name, &old.held, false);
        }
        if self.peers > self.capacity {
            self.evict(Some(&name), Class::Peer);
        } else if self.entries.len() - self.found > self.capacity.max(UNUSABLE_LEAST) {
            self.evict(Some(&name), Class::Unusable);
        }
    }

    /// Counts what came, or what went.
    fn count(&mut self, name: &Name, held: &Held, came: bool) {
        let (found, peer) = (matches!(held, Held::Found(_)), Class::of(name, held) == Some(Class::Peer));
        if came {
            self.found += usize::from(found);
            self.peers += usize::from(peer);
        } else {
            self.found -= usize::from(found);
            self.peers -= usize::from(peer);
        }
    }

    /// Evicts a peer, if there is one.
    pub fn evict_peer(&mut self) {
        if self.peers > 0 {
            self.evict(None, Class::Peer);
        }
    }

    /// Second chance: the hand goes round by name, and takes the first of the class that was not asked for since it last came by.
    fn evict(&mut self, keep: Option<&Name>, class: Class) {
        let mut hand = self.hands[class as usize];
        loop {
            let next = match hand {
                Some(hand) => self.entries.range_mut((std::ops::Bound::Excluded(hand), std::ops::Bound::Unbounded)).next(),
                None => self.entries.iter_mut().next(),
            };
            let Some((&name, entry)) = next else {
                hand = None;
                continue;
            };
            hand = Some(name);
            if Some(&name) == keep || Class::of(&name, &entry.held) != Some(class) || std::mem::take(&mut entry.used) {
                continue;
            }
            self.hands[class as usize] = hand;
            let entry = self.entries.remove(&name).expect("just seen");
            self.count(&name, &entry.held, false);
            if class == Class::Peer {
                self.evicted.push(name);
                self.evictions += 1;
            }
            return self.at_least(&name.0, entry.generation);
        }
    }

    /// Of a key that is not held, nothing older is taken.
    pub fn at_least(&mut self, key: &Key, generation: Generation) {
        self.forgotten.resize(BUCKETS, Generation::default());
        let bucket = bucket(key);
        self.forgotten[bucket] = self.forgotten[bucket].max(generation);
    }

    /// Found entries that were evicted since this was asked last.
    pub fn take_evicted(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.evicted)
    }

    fn floor_of(&self, key: &Key) -> Generation {
        self.forgotten.get(bucket(key)).copied().unwrap_or_default()
    }

    /// A key is not what it was before a generation; `gone` gets the names that must not be used any longer.
    pub fn withdraw(&mut self, key: &Key, generation: Generation, now: Instant, gone: &mut Vec<Name>) {
        let terms = self.terms;
        for (name, entry) in of_key(&mut self.entries, key).filter(|(_, entry)| entry.generation < generation) {
            if matches!(entry.held, Held::Found(_)) {
                self.found -= 1;
                self.peers -= usize::from(is_peer(name));
                if entry.is_usable(now, terms) {
                    gone.push(*name);
                }
            }
            entry.held = Held::Floor;
            entry.generation = generation;
        }
        self.withdraw_asker(key, generation, now, gone);
    }

    /// The same for keys by their names on the wire.
    pub fn withdraw_names(&mut self, groups: &[(Generation, Vec<u32>)], now: Instant, gone: &mut Vec<Name>) {
        let mut withdrawn: BTreeMap<u32, Generation> = BTreeMap::new();
        for &(generation, ref names) in groups {
            for &name in names {
                let newest = withdrawn.entry(name).or_default();
                *newest = generation.max(*newest);
            }
        }
        if withdrawn.is_empty() {
            return;
        }
        let held = self.entries.iter().filter(|(_, entry)| matches!(entry.held, Held::Found(_)));
        let mut keys: BTreeSet<Key> = held.map(|((key, _), _)| *key).collect();
        keys.extend(&self.askers);
        for key in keys {
            if let Some(&generation) = withdrawn.get(&key_name(key_hash(&key))) {
                self.withdraw(&key, generation, now, gone);
            }
        }
    }

    /// What withdrawals concern: the keys held, and those on whose behalf was asked.
    pub fn interest(&self) -> Interest {
        let held = self.entries.iter().filter(|(_, entry)| matches!(entry.held, Held::Found(_)));
        let mut interest = Interest::for_keys(self.found + self.askers.len());
        held.map(|((key, _), _)| key).chain(&self.askers).for_each(|key| interest.insert(key_hash(key)));
        interest
    }

    /// If the key asks here: what it was allowed before a generation is to be looked up again.
    fn withdraw_asker(&mut self, asker: &Key, generation: Generation, now: Instant, gone: &mut Vec<Name>) {
        if self.askers.contains(asker) {
            self.forget(|name, entry| name.1 == Some(*asker) && entry.revision < generation, generation, now, gone);
        }
    }

    /// Another part has an asker, which is not what it was: what it was allowed is to be looked up again.
    pub fn forget_asker(&mut self, asker: &Key, now: Instant, gone: &mut Vec<Name>) {
        self.forget(|name, _| name.1 == Some(*asker), Generation(0), now, gone);
    }

    /// Forgets what is held of other keys.
    pub fn keep(&mut self, keep: impl Fn(&Key) -> bool, now: Instant, gone: &mut Vec<Name>) {
        self.forget(|name, _| !keep(&name.0), Generation(0), now, gone);
        self.entries.retain(|name, _| keep(&name.0));
    }

    /// Only the generations of these entries count from now on, and this one.
    fn forget(&mut self, which: impl Fn(&Name, &Entry) -> bool, generation: Generation, now: Instant, gone: &mut Vec<Name>) {
        let terms = self.terms;
        for (name, entry) in self.entries.iter_mut().filter(|(name, entry)| which(name, entry)) {
            if matches!(entry.held, Held::Found(_)) {
                self.found -= 1;
                self.peers -= usize::from(is_peer(name));
                if entry.is_usable(now, terms) {
                    gone.push(*name);
                }
            }
            entry.held = Held::Floor;
            entry.generation = entry.generation.max(generation);
        }
    }

    /// A correction that an agent did not ask for. It may move what it holds, but says nothing of who may know.
    pub fn correct(&mut self, key: &Key, said: &Said, now: Instant, gone: &mut Vec<Name>) {
        let terms = self.terms;
        let Finding::Found(value) = &said.finding else {
            return self.withdraw(key, said.generation, now, gone);
        };
        let same_service = |old: &Value| old.mapping().map(|m| m.service) == value.mapping().map(|m| m.service);
        let mut others = false;
        for (name, entry) in of_key(&mut self.entries, key) {
            match &mut entry.held {
                Held::Found(_) if entry.generation >= said.generation => {}
                Held::Found(old) if same_service(old) && entry.policy == said.policy => {
                    if entry.until.min(terms.end(entry.heard, old)) > now {
                        gone.push(*name);
                    }
                    *old = value.clone();
                    entry.generation = said.generation;
                    // Nobody asked: the lease is that of the last word that was asked for.
                    self.leases = self.leases.min(terms.end(entry.heard, value));
                }
                _ => others = true,
            }
        }
        if others {
            self.withdraw(key, said.generation, now, gone);
        } else {
            self.withdraw_asker(key, said.generation, now, gone);
        }
    }

    /// What is held may be used until then, unless it is confirmed.
    pub fn doubt(&mut self, until: Instant) {
        for entry in self.entries.values_mut() {
            if matches!(entry.held, Held::Found(_)) {
                entry.until = entry.until.min(until);
            } else {
                entry.until = Instant::ZERO;
            }
        }
        self.leases = self.leases.min(until);
    }

    /// What may be used until `end` may be used until `limit`: nobody can be asked.
    pub fn suspend_doubt(&mut self, end: Instant, limit: Instant) {
        for entry in self.entries.values_mut().filter(|entry| matches!(entry.held, Held::Found(_)) && entry.until <= end) {
            entry.until = limit;
        }
        let terms = self.terms;
        self.leases = self.entries.values().filter_map(|e| e.ends(terms)).min().unwrap_or(Instant::MAX);
    }

    /// Every lease restarts.
    pub fn renew(&mut self, at: Instant) {
        self.terms.renewed = self.terms.renewed.max(at);
    }

    /// For how long a value may be used without word of it.
    pub fn life(&self, value: &Value) -> Duration {
        lease(value).max(self.terms.fail_static)
    }

    /// The shortest such time of all that is held.
    pub fn shortest_life(&self) -> Duration {
        let lives = self.entries.values().filter_map(|entry| match &entry.held {
            Held::Found(value) => Some(self.life(value)),
            _ => None,
        });
        lives.min().unwrap_or(Duration::MAX)
    }

    /// When to look for leases that ended; none does before.
    pub fn next_expiry(&self) -> Instant {
        if self.found == 0 { Instant::MAX } else { self.leases }
    }

    /// Takes away what must not be used any longer.
    pub fn expire(&mut self, now: Instant, gone: &mut Vec<Name>) {
        let terms = self.terms;
        // Those that end now are usable no more, so they are named whatever `is_usable` says.
        for (name, entry) in &mut self.entries {
            if matches!(entry.held, Held::Found(_)) && !entry.is_usable(now, terms) {
                entry.held = Held::Floor;
                self.found -= 1;
                self.peers -= usize::from(is_peer(name));
                gone.push(*name);
            }
        }
        self.leases = self.entries.values().filter_map(|e| e.ends(terms)).min().unwrap_or(Instant::MAX);
    }
}

/// What is evicted for lack of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A mapping that was found.
    Peer,
    /// Refused, unknown or expired.
    Unusable,
}

impl Class {
    /// `None`: what is never evicted.
    fn of(name: &Name, held: &Held) -> Option<Self> {
        match held {
            Held::Found(_) => is_peer(name).then_some(Self::Peer),
            _ => Some(Self::Unusable),
        }
    }
}

/// Whether a name is another's address: neither an own one, which asks for itself, nor a group.
fn is_peer((key, asker): &Name) -> bool {
    *asker != Some(*key) && !matches!(key, Key::Group(_))
}

fn of_key<'a>(entries: &'a mut BTreeMap<Name, Entry>, key: &Key) -> impl Iterator<Item = (&'a Name, &'a mut Entry)> {
    let key = *key;
    entries.range_mut((key, None)..).take_while(move |((k, _), _)| *k == key)
}

impl Entry {
    /// When a found entry ends.
    fn ends(&self, terms: Terms) -> Option<Instant> {
        match &self.held {
            Held::Found(value) => Some(self.until.min(terms.end(self.heard, value))),
            _ => None,
        }
    }

    fn is_usable(&self, now: Instant, terms: Terms) -> bool {
        match &self.held {
            Held::Found(_) => self.ends(terms).is_some_and(|end| now < end),
            Held::Unknown | Held::Forbidden => now < self.until,
            Held::Floor => false,
        }
    }

    fn usable(&self, now: Instant, terms: Terms) -> Option<Finding> {
        self.is_usable(now, terms).then(|| match &self.held {
            Held::Found(value) => Finding::Found(value.clone()),
            Held::Forbidden => Finding::Forbidden,
            Held::Unknown | Held::Floor => Finding::Unknown,
        })
    }
}

/// Of a group, whose value has no lease of its own, as long as of a mapping by default.
fn lease(value: &Value) -> Duration {
    value.mapping().map_or(GROUP_LEASE, |mapping| Duration::from_ms(u64::from(mapping.lease_ms)))
}

fn bucket(key: &Key) -> usize {
    let mut bytes = Vec::with_capacity(24);
    crate::wire::directory::emit_key(key, &mut bytes);
    let hash = bytes.iter().fold(0u64, |hash, &byte| mix(hash ^ u64::from(byte)));
    (hash % BUCKETS as u64) as usize
}

/// Names that are refused, unknown or expired have room for at least so many.
const UNUSABLE_LEAST: usize = 1024;
const GROUP_LEASE: Duration = Duration::from_secs(60);
/// Kept generations of evicted keys: one too great costs a lookup at a server that lags behind, no more.
const BUCKETS: usize = 1024;
