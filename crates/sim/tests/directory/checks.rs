//! What must hold at every moment, whatever breaks.
//!
//! - Generations never go back: at any agent for a name, at any server for a key, and the server's revision.
//! - Access never fails open: whatever a server answers an agent, the asker may know by that server's own policy and mappings at that moment, by
//!   rules written independently here.

use std::collections::BTreeMap;

use weft_control::directory::resolver::Resolution;
use weft_control::directory::{Generation, Key, Mapping, PrincipalId, Value};
use weft_control::wire::directory::Finding;
use weft_fabric::Instant;
use weft_sim::directory::cluster::{Cluster, Seen, agent_principal};
use weft_sim::directory::network::Node;

use super::trial::{Matrices, Shape};

#[derive(Debug)]
pub struct Checks {
    shape: Shape,
    matrices: Matrices,
    /// By server: the index of its policy.
    pub policy_of: Vec<usize>,
    agents: BTreeMap<(u16, u32, Key, Option<Key>), Generation>,
    servers: BTreeMap<(u16, u32, Key), Generation>,
    revisions: BTreeMap<(u16, u32), Generation>,
    /// Every mapping that any node received.
    pub received: BTreeMap<(Key, Generation), Value>,
    pub resolved: u64,
    pub found: u64,
}

impl Checks {
    pub fn new(shape: Shape, matrices: Matrices) -> Self {
        let policy_of = vec![0; usize::from(shape.servers)];
        Self {
            shape,
            matrices,
            policy_of,
            agents: BTreeMap::new(),
            servers: BTreeMap::new(),
            revisions: BTreeMap::new(),
            received: BTreeMap::new(),
            resolved: 0,
            found: 0,
        }
    }

    pub fn see(&mut self, cluster: &Cluster, _at: Instant, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Resolved { agent, key, asker, resolution, .. } => {
                self.resolved += 1;
                let Resolution::Found(generation, value) = resolution else { return Ok(()) };
                self.found += 1;
                let life = cluster.life(Node::Agent(*agent));
                let last = self.agents.entry((*agent, life, *key, *asker)).or_default();
                if generation < last {
                    return Err(format!("agent {agent} received {key} of {generation:?} after {last:?}"));
                }
                *last = *generation;
                self.receive(key, *generation, value)
            }
            Seen::Answered { server, principal, asker, revision, policy, findings } => {
                let life = cluster.life(Node::Server(*server));
                let last = self.revisions.entry((*server, life)).or_default();
                if revision < last {
                    return Err(format!("server {server} went back from {last:?} to {revision:?}"));
                }
                *last = *revision;
                let own = self.policy_of[usize::from(*server)] as u32 + 1;
                if *policy != own {
                    return Err(format!("server {server} answered under policy {policy}, and has {own}"));
                }
                for (key, generation, finding) in findings {
                    let Finding::Found(value) = finding else { continue };
                    let last = self.servers.entry((*server, life, *key)).or_default();
                    if generation < last {
                        return Err(format!("server {server} said {key} of {generation:?} after {last:?}"));
                    }
                    *last = *generation;
                    self.receive(key, *generation, value)?;
                    if !self.may_receive(cluster, *server, *principal, asker.as_ref(), key, value) {
                        return Err(format!("server {server} sent {principal:?} {key} on behalf of {asker:?}: {value:?}"));
                    }
                }
                Ok(())
            }
            Seen::Corrected { server, principal, key, generation, finding } => {
                let Finding::Found(value) = finding else { return Ok(()) };
                self.receive(key, *generation, value)?;
                let askers = super::trial::all_keys(&self.shape);
                if askers.iter().any(|asker| self.may_receive(cluster, *server, *principal, Some(asker), key, value)) {
                    return Ok(());
                }
                Err(format!("server {server} corrected {principal:?}, where nobody may know {key}"))
            }
            Seen::Invalidated { .. } | Seen::Done { .. } | Seen::StreamMessage { .. } | Seen::StreamBroken { .. } => Ok(()),
        }
    }

    /// One generation of a key has one value at all servers.
    fn receive(&mut self, key: &Key, generation: Generation, value: &Value) -> Result<(), String> {
        let known = self.received.entry((*key, generation)).or_insert_with(|| value.clone());
        if known == value { Ok(()) } else { Err(format!("{key} of {generation:?} is {known:?} and {value:?}")) }
    }

    fn may_receive(
        &self,
        cluster: &Cluster,
        server: u16,
        to: PrincipalId,
        asker: Option<&Key>,
        key: &Key,
        value: &Value,
    ) -> bool {
        let held = |key: &Key| cluster.server(server).and_then(|s| s.shared().table.get(key).map(|f| f.value.to_value()));
        let asking = asker.and_then(|asker| Some((*asker, held(asker)?)));
        let asking = asking.as_ref().and_then(|(asker, value)| Some((*asker, value.mapping()?)));
        self.allows(self.policy_of[usize::from(server)], to, asking, key, value)
    }

    /// The rules: groups are for all; else the asker lives on the host that asks, is of the same tenant, and its service may.
    pub fn allows(&self, policy: usize, host: PrincipalId, asking: Option<(Key, &Mapping)>, key: &Key, value: &Value) -> bool {
        let target = match value {
            Value::Group(_) => return true,
            Value::Mapping(mapping) => mapping,
        };
        let Some((asker, mapping)) = asking else { return false };
        let (from, to) = (mapping.service.0 as usize, target.service.0 as usize);
        mapping.owner == host
            && asker.tenant() == key.tenant()
            && (1..=3).contains(&from)
            && (1..=3).contains(&to)
            && (from == to || self.matrices[policy][to - 1][from - 1])
    }
}

/// What is wrong with what an agent may use now, by the store and by a policy: names that it should not be able to use.
pub fn withdrawn_in_use(cluster: &Cluster, checks: &Checks, agent: u16, policy: usize) -> Vec<String> {
    let Some(machine) = cluster.agent(agent) else { return Vec::new() };
    let live = |key: &Key| cluster.store.get(key).and_then(|(_, record)| record.value.clone());
    machine
        .usable()
        .filter_map(|(key, asker, generation, held)| {
            let now = live(&key);
            let asking = asker.and_then(|a| Some((a, *live(&a)?.mapping()?)));
            let moved = |now: &Value| match (now.mapping(), held.mapping()) {
                (Some(now), Some(held)) => (now.owner, now.service) != (held.owner, held.service),
                _ => false,
            };
            let asking = asking.as_ref().map(|(asker, mapping)| (*asker, mapping));
            let why = match &now {
                None => "deleted",
                Some(now) if moved(now) => "of another owner or service",
                Some(now) if !checks.allows(policy, agent_principal(agent), asking, &key, now) => "forbidden",
                Some(_) => return None,
            };
            Some(format!("agent {agent} uses {key} of {generation:?} for {asker:?}, which is {why}"))
        })
        .collect()
}
