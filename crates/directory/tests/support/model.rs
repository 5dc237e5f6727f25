//! What a store should do, in the simplest way; and random things to ask of it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;
use weft_control::directory::store::{CommitResult, StoreOp, Stored};
use weft_control::directory::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, Record, ServiceId, UpdateId, Value};
use weft_directory::store::Committed;

/// A store in memory. Its revisions are its own: a real one's are compared by their order.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub records: BTreeMap<Key, (Generation, Record)>,
    pub revision: Generation,
    pub purged: Generation,
}

/// Something to ask of a store.
#[derive(Clone, Debug)]
pub enum Step {
    /// Write these keys (by number); of the expected generations those marked are wrong.
    Commit(Vec<(u8, bool, Option<u16>)>),
    /// Purge all tombstones; those marked with a generation that they do not have.
    Purge(bool),
    /// Everything.
    Load,
}

impl Model {
    /// The commit that a step means, as a server that knows everything would ask for it.
    pub fn ops(&self, writes: &[(u8, bool, Option<u16>)]) -> Vec<StoreOp> {
        let mut ops: BTreeMap<Key, StoreOp> = BTreeMap::new();
        for &(number, wrong, value) in writes {
            let key = key(number);
            let old = self.records.get(&key);
            let generation = old.map_or(Generation(0), |(generation, _)| *generation);
            let expect = if wrong { Generation(generation.0 + 1) } else { generation };
            let update = UpdateId { writer: PrincipalId(7), number: u64::from(number) };
            let record =
                Record::next(old.map(|(generation, record)| (record, *generation)), self.purged, update, value.map(value_of));
            ops.insert(key, StoreOp { key, expect, record });
        }
        ops.into_values().collect()
    }

    /// A commit; if it succeeds it has the revision that the store gave.
    pub fn commit(&mut self, ops: &[StoreOp], purged: Generation, at: Generation) -> Committed {
        let held: Vec<_> = ops.iter().map(|op| self.records.get(&op.key).cloned()).collect();
        let same = |(op, held): (&StoreOp, &Option<(Generation, Record)>)| {
            op.expect == held.as_ref().map_or(Generation(0), |held| held.0)
        };
        if self.purged > purged || !ops.iter().zip(&held).all(same) {
            return Committed { result: CommitResult::Conflict(held), purged: self.purged };
        }
        assert!(at > self.revision, "revisions grow");
        self.revision = at;
        for op in ops {
            self.records.insert(op.key, (at, op.record.clone()));
        }
        Committed { result: CommitResult::Done(at), purged: self.purged }
    }

    /// All tombstones.
    pub fn tombstones(&self) -> Vec<(Key, Generation)> {
        let dead = self.records.iter().filter(|(_, (_, record))| record.value.is_none());
        dead.map(|(key, (generation, _))| (*key, *generation)).collect()
    }

    /// Purges those tombstones that are as given; says how many.
    pub fn purge(&mut self, tombstones: &[(Key, Generation)]) -> usize {
        let mut removed = 0;
        for (key, generation) in tombstones {
            if matches!(self.records.get(key), Some((found, Record { value: None, .. })) if found == generation) {
                self.records.remove(key);
                self.purged = self.purged.max(*generation);
                removed += 1;
            }
        }
        removed
    }

    /// Applies the events of a watch.
    pub fn apply(&mut self, changes: Vec<Stored>) {
        for Stored { key, generation, record } in changes {
            match record {
                Some(record) => {
                    assert!(self.records.get(&key).is_none_or(|(old, _)| *old < generation), "generations of a key grow");
                    self.records.insert(key, (generation, record));
                }
                None => {
                    let gone = self.records.remove(&key);
                    assert!(
                        gone.is_some_and(|(old, record)| old <= generation && record.value.is_none()),
                        "only tombstones are purged"
                    );
                }
            }
        }
    }
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0u8..12, prop::bool::weighted(0.1), prop::option::weighted(0.7, any::<u16>()));
    let step = prop_oneof![
        8 => prop::collection::vec(write, 1..6).prop_map(Step::Commit),
        1 => any::<bool>().prop_map(Step::Purge),
        1 => Just(Step::Load),
    ];
    prop::collection::vec(step, 1..40)
}

pub fn key(number: u8) -> Key {
    match number % 3 {
        0 => Key::App4(Ipv4Addr::new(10, 0, 0, number)),
        1 => Key::App6(Ipv4Addr::new(10, 0, 0, number).to_ipv6_mapped()),
        _ => Key::TenantIp4(
            weft_fabric::TenantId::new(5).unwrap(),
            weft_control::directory::MacSpace(0),
            Ipv4Addr::new(10, 0, 0, number),
        ),
    }
}

pub fn value_of(number: u16) -> Value {
    Value::Mapping(Mapping {
        locator: Locator::V4(Ipv4Addr::from(0x0a00_0000 | u32::from(number))),
        mac: None,
        group: GroupId(0),
        service: ServiceId(1),
        owner: PrincipalId(u32::from(number)),
        lease_ms: 60_000,
    })
}
