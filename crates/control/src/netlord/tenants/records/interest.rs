//! Which streams of a server asked for which tenants, and what they are still to be notified of.
//!
//! An agent asks again for a tenant that it was notified of, and gets all of it that it wants at one revision: a notice may be late or come twice, and says nothing
//! but "ask". One notice is enough until the agent has asked.

use std::collections::{BTreeMap, BTreeSet};

use super::name::Name;
use crate::directory::request::StreamId;

/// What the streams of a server asked for.
#[derive(Debug, Default)]
pub struct Interest {
    streams: BTreeMap<StreamId, BTreeMap<String, Wanted>>,
    by_tenant: BTreeMap<String, BTreeSet<StreamId>>,
    due: BTreeMap<StreamId, BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct Wanted {
    vifs: BTreeSet<String>,
    is_notified: bool,
}

/// In a notice: all tenants.
pub(super) const ALL: &str = "";

impl Interest {
    /// Nobody has asked.
    pub fn new() -> Self {
        Self::default()
    }

    /// A stream asks for VIFs of a tenant, in place of those that it asked for before. Before the store is read for it: what changes from now on is notified.
    pub fn subscribe<'a>(&mut self, stream: StreamId, tenant: &str, vifs: impl IntoIterator<Item = &'a str>) {
        let vifs: BTreeSet<String> = vifs.into_iter().map(str::to_owned).collect();
        self.by_tenant.entry(tenant.to_owned()).or_default().insert(stream);
        let wanted = Wanted { vifs, is_notified: false };
        self.streams.entry(stream).or_default().insert(tenant.to_owned(), wanted);
    }

    /// Bytes that what a stream asked for takes in memory, about.
    pub fn bytes(&self, stream: StreamId) -> usize {
        let of = |(tenant, wanted): (&String, &Wanted)| {
            2 * (tenant.len() + ENTRY) + wanted.vifs.iter().map(|vif| vif.len() + ENTRY).sum::<usize>()
        };
        self.streams.get(&stream).map_or(0, |tenants| tenants.iter().map(of).sum())
    }

    /// A stream begins again, wanting nothing.
    pub fn clear(&mut self, stream: StreamId) {
        self.due.remove(&stream);
        let Some(tenants) = self.streams.remove(&stream) else { return };
        for tenant in tenants.into_keys() {
            if let Some(streams) = self.by_tenant.get_mut(&tenant) {
                streams.remove(&stream);
                if streams.is_empty() {
                    self.by_tenant.remove(&tenant);
                }
            }
        }
    }

    /// A stream is to be known, though it asks for no tenant.
    pub fn open(&mut self, stream: StreamId) {
        self.streams.entry(stream).or_default();
    }

    /// A record has changed.
    pub fn changed(&mut self, name: &Name) {
        let Some(tenant) = name.tenant() else { return self.all_changed() };
        let Some(streams) = self.by_tenant.get(tenant) else { return };
        for stream in streams {
            let Some(wanted) = self.streams.get_mut(stream).and_then(|it| it.get_mut(tenant)) else { continue };
            let concerns = !matches!(name, Name::Vif(_, vif) if !wanted.vifs.contains(vif));
            if concerns && !wanted.is_notified {
                wanted.is_notified = true;
                self.due.entry(*stream).or_default().insert(tenant.to_owned());
            }
        }
    }

    /// Anything may have changed.
    pub fn all_changed(&mut self) {
        self.due.extend(self.streams.keys().map(|&stream| (stream, BTreeSet::from([ALL.to_owned()]))));
    }

    /// The next notice that is to be sent: to whom, of which tenants; an empty name: of all.
    pub fn poll(&mut self) -> Option<(StreamId, Vec<String>)> {
        let (stream, mut tenants) = self.due.pop_first()?;
        // All include the others.
        if tenants.contains(ALL) {
            tenants.retain(|tenant| tenant == ALL);
        }
        Some((stream, tenants.into_iter().collect()))
    }
}

/// Bytes of an entry of a map, about.
const ENTRY: usize = 64;
