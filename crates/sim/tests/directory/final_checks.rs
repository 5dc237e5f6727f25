//! What must hold once all is healed and quiet.
//!
//! - Updates are linearizable by key, together with what the store holds at the end.
//! - No acknowledged update is lost, none is applied twice, and all operations of one share its generation.
//! - Every server holds what the store holds; agents use nothing that was withdrawn, and after one correction nothing that is stale.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, Key, Locator, Value};
use weft_control::wire::directory::State;
use weft_fabric::Duration;
use weft_sim::directory::network::Node;

use super::checks::withdrawn_in_use;
use super::history::{Action, Operation, is_linearizable};
use super::trial::{Asked, Trial, all_keys};

pub fn check(trial: &mut Trial) -> Result<(), String> {
    all_ended(trial)?;
    for key in all_keys(&trial.shape) {
        let history = history_of(trial, &key);
        if !is_linearizable(&history) {
            return Err(format!("the updates of {key} have no order: {history:#?}"));
        }
    }
    exactly_once(trial)?;
    nothing_lost(trial)?;
    servers_equal_store(trial)?;
    if let Some(operators) = &trial.operators {
        operators.check(&trial.cluster)?;
    }
    if let Some(tenants) = &trial.tenants {
        tenants.check(&trial.cluster)?;
    }
    agents_converge(trial)
}

fn all_ended(trial: &Trial) -> Result<(), String> {
    let lives = |asked: &Asked| trial.cluster.life(Node::Writer(asked.writer)) == asked.life;
    match trial.updates.iter().find(|asked| asked.ended.is_none() && lives(asked)) {
        None => Ok(()),
        Some(asked) => Err(format!("an update never ended: {asked:?}")),
    }
}

/// What writers saw of a key, and what the store holds at the end.
pub fn history_of(trial: &Trial, key: &Key) -> Vec<Operation> {
    let mut history = Vec::new();
    for asked in &trial.updates {
        let Some(at) = asked.ops.iter().position(|op| op.key == *key) else { continue };
        let op = &asked.ops[at];
        let expect = op.expect.map(|generation| generation.0);
        let value = op.value.as_ref().map(number_of);
        let (returned, action) = match asked.ended {
            Some((end, UpdateResult::Committed(generation))) => {
                (Some(end), Action::Wrote { value, expect, generation: generation.0 })
            }
            Some((end, UpdateResult::Conflict { at: cause, generation })) if usize::from(cause) == at => {
                (Some(end), Action::Conflicted { expect: expect.unwrap_or(u64::MAX), generation: generation.0 })
            }
            // The store knows of values, which are unique, whether they were ever written; that keeps the search short.
            Some((_, UpdateResult::Unknown)) | None if value.is_some() => match written_at(trial, key, op.value.as_ref()) {
                Some(generation) => (None, Action::Wrote { value, expect, generation: generation.0 }),
                None => continue,
            },
            Some((_, UpdateResult::Unknown)) | None => (None, Action::MayWrite { value, expect }),
            Some(_) => continue,
        };
        history.push(Operation { call: asked.call, returned, action });
    }
    let held = trial.cluster.store.get(key);
    let value = held.and_then(|(_, record)| record.value.as_ref()).map(number_of);
    let generation = held.map_or(0, |(generation, _)| generation.0);
    let now = trial.cluster.now();
    history.push(Operation { call: now, returned: Some(now), action: Action::Read { value, generation } });
    history
}

fn written_at(trial: &Trial, key: &Key, value: Option<&Value>) -> Option<Generation> {
    let wrote = |entry: &&weft_sim::directory::store::LogEntry| {
        entry.writes.iter().any(|(k, record)| k == key && record.as_ref().and_then(|r| r.value.as_ref()) == value)
    };
    trial.cluster.store.log().iter().find(wrote).map(|entry| entry.revision)
}

/// Values are unique by their first address.
fn number_of(value: &Value) -> u64 {
    match value {
        Value::Mapping(mapping) => match mapping.locator {
            Locator::V4(ip) => u64::from(u32::from(ip)),
            _ => 0,
        },
        Value::Group(addresses) => match addresses[0] {
            std::net::IpAddr::V4(ip) => u64::from(u32::from(ip)),
            std::net::IpAddr::V6(_) => 0,
        },
    }
}

fn exactly_once(trial: &Trial) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut made = BTreeMap::new();
    for entry in trial.cluster.store.log() {
        for (key, record) in &entry.writes {
            let Some(record) = record else { continue };
            let update = record.writes[0].update;
            if !seen.insert((*key, update)) {
                return Err(format!("{update:?} was applied twice to {key}, at last at {:?}", entry.revision));
            }
            if *made.entry(update).or_insert(entry.revision) != entry.revision {
                return Err(format!("{update:?} was torn: {key} at {:?}", entry.revision));
            }
        }
    }
    Ok(())
}

fn nothing_lost(trial: &Trial) -> Result<(), String> {
    let mut written: BTreeMap<(Generation, Key), Option<Value>> = BTreeMap::new();
    for entry in trial.cluster.store.log() {
        for (key, record) in &entry.writes {
            written.insert((entry.revision, *key), record.as_ref().and_then(|r| r.value.clone()));
        }
    }
    for asked in &trial.updates {
        let Some((_, UpdateResult::Committed(generation))) = asked.ended else { continue };
        for op in &asked.ops {
            if written.get(&(generation, op.key)) != Some(&op.value) {
                return Err(format!("acknowledged and lost: {asked:?}"));
            }
        }
    }
    for ((key, generation), value) in &trial.checks.received {
        if written.get(&(*generation, *key)) != Some(&Some(value.clone())) {
            return Err(format!("a node received {value:?} of {key}, which at {generation:?} was never written"));
        }
    }
    Ok(())
}

fn servers_equal_store(trial: &Trial) -> Result<(), String> {
    let store = &trial.cluster.store;
    for n in 0..trial.shape.servers {
        let server = trial.cluster.server(n).ok_or("a server does not run")?;
        let shared = server.shared();
        if shared.state != State::Serving || shared.revision != store.revision() {
            return Err(format!(
                "server {n} is {:?} at {:?}, the store at {:?}",
                shared.state,
                shared.revision,
                store.revision()
            ));
        }
        for key in all_keys(&trial.shape) {
            let held = shared.table.get(&key).map(|found| (found.generation, found.value.to_value()));
            let true_ = store.get(&key).and_then(|(generation, record)| Some((*generation, record.value.clone()?)));
            if held != true_ {
                return Err(format!("server {n} holds {held:?} of {key}, the store {true_:?}"));
            }
        }
    }
    Ok(())
}

fn agents_converge(trial: &mut Trial) -> Result<(), String> {
    let policy = trial.checks.policy_of[0];
    for agent in 0..trial.shape.agents {
        if let Some(wrong) = withdrawn_in_use(&trial.cluster, &trial.checks, agent, policy).first() {
            return Err(wrong.clone());
        }
    }
    // Whatever is stale now was moved: a packet to it comes to the wrong place, and a switch reports it to a server.
    for _ in 0..3 {
        for agent in 0..trial.shape.agents {
            for (key, asker, stale) in stale(trial, agent) {
                let server = trial.rng.random_range(0..trial.shape.servers);
                trial.cluster.misdeliver(server, asker, key, stale);
            }
        }
        let end = trial.cluster.now() + Duration::from_ms(300);
        trial.work(end)?;
    }
    for agent in 0..trial.shape.agents {
        if let Some((key, ..)) = stale(trial, agent).first() {
            return Err(format!("agent {agent} still uses {key} as it was, though it was corrected"));
        }
    }
    Ok(())
}

/// Mappings in use that are not what the store holds: the key, the asker, where it was.
fn stale(trial: &Trial, agent: u16) -> Vec<(Key, Key, Locator)> {
    let Some(machine) = trial.cluster.agent(agent) else { return Vec::new() };
    let is = |key: &Key| trial.cluster.store.get(key).and_then(|(_, record)| record.value.clone());
    machine
        .usable()
        .filter(|(key, _, _, value)| is(key).as_ref() != Some(*value))
        .filter_map(|(key, asker, _, value)| Some((key, asker?, value.mapping()?.locator)))
        .collect()
}
