use std::collections::BTreeMap;

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::directory::key::{GroupId, Locator, Mapping, PrincipalId, ServiceId, UpdateId, Write};
use crate::directory::testing::{any_value_of, few_keys};

fn record(value: Option<Value>, number: u64) -> Record {
    let update = UpdateId { writer: PrincipalId(1), number };
    Record { value, writes: smallvec![Write { update, before: Generation(0) }], floor: Generation(number) }
}

/// What a live key adds to the hash (docs/protocol-directory.md, Health).
fn summand(generation: Generation, key: &Key) -> u64 {
    let bytes = [generation.0.to_be_bytes().to_vec(), Model::bytes(key)].concat();
    u64::from_be_bytes(Params::new().hash_length(8).hash(&bytes).as_bytes().try_into().unwrap())
}

/// The same, slow and obvious.
#[derive(Default)]
struct Model {
    entries: BTreeMap<Vec<u8>, (Key, Generation, Option<Value>)>,
}

impl Model {
    fn bytes(key: &Key) -> Vec<u8> {
        let mut bytes = Vec::new();
        emit_key(key, &mut bytes);
        bytes
    }

    fn put(&mut self, key: Key, generation: Generation, value: Option<Value>) {
        let held = self.entries.entry(Self::bytes(&key)).or_insert((key, Generation(0), None));
        if generation > held.1 {
            *held = (key, generation, value);
        }
    }

    fn hash(&self) -> u64 {
        let live = self.entries.values().filter(|held| held.2.is_some());
        live.fold(0, |sum: u64, (key, generation, _)| sum.wrapping_add(summand(*generation, key)))
    }

    fn check(&self, table: &Table) -> Result<(), TestCaseError> {
        let live = |after: &[u8]| {
            let range = self.entries.iter().filter(|(bytes, held)| held.2.is_some() && bytes.as_slice() > after);
            range.map(|(_, held)| held.clone()).collect::<Vec<_>>()
        };
        let list = |after: Option<&Key>| {
            table.after(after).map(|(key, found)| (key, found.generation, Some(found.value.to_value()))).collect::<Vec<_>>()
        };
        prop_assert_eq!(list(None), live(&[]));
        for (bytes, (key, generation, value)) in &self.entries {
            let held = table.held(key).expect("held");
            prop_assert_eq!((held.generation, held.value.map(|value| value.to_value())), (*generation, value.clone()));
            prop_assert_eq!(table.get(key).map(|found| found.value.to_value()), value.clone());
            prop_assert_eq!(list(Some(key)).len(), live(bytes).len());
        }
        prop_assert_eq!(table.len(), live(&[]).len());
        prop_assert_eq!(table.hash(), self.hash());
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(Key, u64, Option<Value>),
    /// The same from a load.
    PutLoaded(Key, u64, Option<Value>),
    Remove(Key),
    /// A load of the state at a revision, in which only some keys are left.
    Load(u64, Vec<Key>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let put = (few_keys(), 1u64..100).prop_flat_map(|(key, generation)| {
        (prop::option::of(any_value_of(key)), any::<bool>()).prop_map(move |(value, is_loaded)| {
            if is_loaded { Step::PutLoaded(key, generation, value) } else { Step::Put(key, generation, value) }
        })
    });
    let load = (1u64..100, prop::collection::vec(few_keys(), 0..40)).prop_map(|(revision, keys)| Step::Load(revision, keys));
    prop::collection::vec(prop_oneof![20 => put, 4 => few_keys().prop_map(Step::Remove), 1 => load], 1..120)
}

proptest! {
    #[test]
    fn does_as_the_model(steps in steps(), seed: u64) {
        let (mut table, mut model) = (Table::new(seed), Model::default());
        for step in steps {
            match step {
                Step::Put(key, generation, value) => {
                    table.apply(&key, Generation(generation), &record(value.clone(), generation));
                    model.put(key, Generation(generation), value);
                }
                Step::PutLoaded(key, generation, value) => {
                    table.load(&key, Generation(generation), value.as_ref());
                    model.put(key, Generation(generation), value);
                }
                Step::Remove(key) => {
                    let gone = model.entries.remove(&Model::bytes(&key)).and_then(|held| held.2);
                    prop_assert_eq!(table.remove(&key), gone);
                }
                Step::Load(revision, keys) => {
                    table.begin_load();
                    for key in keys.iter().filter(|key| model.entries.contains_key(&Model::bytes(key))) {
                        let (_, generation, value) = model.entries[&Model::bytes(key)].clone();
                        table.load(key, generation, value.as_ref());
                    }
                    table.end_load(Generation(revision));
                    model.entries.retain(|_, held| keys.contains(&held.0) || held.1.0 > revision);
                }
            }
        }
        model.check(&table)?;
    }
}

#[test]
fn random_keys_stay_in_order_through_splits_and_removals() {
    let mut table = Table::default();
    let key = |n: u64| Key::App4((weft_fabric::rng::mix(n) as u32).into());
    let value = Value::Group(smallvec![[10, 0, 0, 1].into()]);
    for n in 0..20_000 {
        table.load(&key(n), Generation(n + 1), Some(&value));
    }
    for n in 0..15_000 {
        table.remove(&key(n));
    }
    let list: Vec<Key> = table.after(None).map(|(key, _)| key).collect();
    let mut expected: Vec<Key> = (15_000..20_000).map(key).collect();
    expected.sort_unstable();
    assert_eq!(list, expected);
    assert!(list.iter().all(|key| table.get(key).is_some()) && (0..15_000).all(|n| table.get(&key(n)).is_none()));
}

#[test]
fn the_hash_is_the_same_however_many_keys_are_hashed_at_once() {
    let (mut table, mut expected) = (Table::default(), 0u64);
    let value = Value::Group(smallvec![[10, 0, 0, 1].into()]);
    for n in 0..3 * HASHED_AT_ONCE as u64 {
        let key = if n % 3 == 0 { Key::App6(u128::from(n).into()) } else { Key::App4((n as u32).into()) };
        table.load(&key, Generation(n + 1), Some(&value));
        expected = expected.wrapping_add(summand(Generation(n + 1), &key));
        assert_eq!(table.hash(), expected, "after {n}");
    }
}

#[test]
fn the_last_writes_are_remembered_up_to_a_limit() {
    let mut table = Table::default();
    let key = |n: usize| Key::App4((n as u32).into());
    for n in 0..MAX_HISTORIES + 10 {
        table.apply(&key(n), Generation(1), &record(None, n as u64));
    }
    assert!(table.held(&key(9)).unwrap().history.is_none());
    assert_eq!(table.held(&key(10)).unwrap().history.unwrap().writes[0].update.number, 10);
}

#[test]
fn a_stale_record_changes_nothing() {
    let mut table = Table::default();
    let key = Key::App4([10, 0, 0, 1].into());
    assert_eq!(table.apply(&key, Generation(5), &record(None, 5)), Applied::Fresh { before: None });
    assert_eq!(table.apply(&key, Generation(5), &record(None, 9)), Applied::Stale);
    assert_eq!(table.apply(&key, Generation(4), &record(None, 4)), Applied::Stale);
    assert_eq!(table.held(&key).unwrap().history.unwrap().floor, Generation(5));
}

#[test]
fn a_million_mappings_take_less_than_110_mb() {
    let mut table = Table::default();
    for n in 0..1_000_000u32 {
        let mapping = Mapping {
            locator: Locator::V4((n / 20).into()),
            mac: None,
            group: GroupId(1),
            service: ServiceId(n % 100),
            owner: PrincipalId(n / 10),
            lease_ms: 60_000,
        };
        // Not in order, as provisioning over years is.
        let key = Key::App4((n.wrapping_mul(2_654_435_761)).into());
        table.apply(&key, Generation(u64::from(n) + 1), &record(Some(Value::Mapping(mapping)), 1));
    }
    assert_eq!(table.len(), 1_000_000);
    assert!(table.bytes() <= 110_000_000, "{}", table.bytes());
}
