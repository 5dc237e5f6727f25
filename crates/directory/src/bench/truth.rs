//! What the benchmarks put into the directory, and so what every answer must be.
//!
//! ```text
//!   mapping i   key 10.0.0.0 + i   service 1 + i mod 16   owner: host 1000 + i mod 64   locator 100.64.0.0 + a number that updates change
//!   service s   may be resolved by itself and the twelve services after it, not by the three before it
//! ```

use std::fmt::Write;
use std::net::Ipv4Addr;

use weft_control::directory::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use weft_control::wire::directory::{Finding, Op};

/// Hosts that ask.
pub const HOSTS: u32 = 64;
/// Services.
pub const SERVICES: u32 = 16;
const FIRST_HOST: u32 = 1000;
/// Services before a service that may not resolve it.
const REFUSED: u32 = 3;
/// The first of the principals that may change everything.
pub const FIRST_WRITER: u32 = 100;
/// How many there are.
pub const WRITERS: u32 = 16;

/// What was put: of each mapping the number of its locator and its generation; generation 0: not put.
#[derive(Clone, Debug)]
pub struct Truth {
    entries: Vec<(u32, u64)>,
}

impl Truth {
    /// Of so many mappings, none of which is put yet.
    pub fn new(mappings: usize) -> Self {
        Self { entries: vec![(0, 0); mappings] }
    }

    /// Mappings.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// It was committed that mapping `at` has this locator. Older values are ignored.
    pub fn committed(&mut self, at: usize, locator: u32, generation: Generation) {
        if generation.0 > self.entries[at].1 {
            self.entries[at] = (locator, generation.0);
        }
    }

    /// The newest generation: a revision that is known.
    pub fn newest(&self) -> Generation {
        Generation(self.entries.iter().map(|&(_, generation)| generation).max().unwrap_or(0))
    }

    /// The generation of mapping `at`.
    pub fn generation(&self, at: usize) -> Generation {
        Generation(self.entries[at].1)
    }

    /// Whether this is what mapping `at` is, for one who may know everything.
    pub fn is(&self, at: usize, generation: Generation, finding: &Finding) -> bool {
        let (locator, own) = self.entries[at];
        match finding {
            Finding::Found(Value::Mapping(it)) => generation.0 == own && *it == mapping(at, locator),
            Finding::Unknown => own == 0,
            _ => false,
        }
    }

    /// Whether this is right of mapping `at`, asked by `host`; a mapping beyond the last does not exist.
    pub fn is_right(&self, host: u32, at: usize, generation: Generation, finding: &Finding) -> bool {
        if at >= self.entries.len() {
            return *finding == Finding::Unknown;
        }
        if !may_resolve(service(host as usize), service(at)) {
            return *finding == Finding::Forbidden;
        }
        self.is(at, generation, finding)
    }
}

/// The op that puts mapping `at`.
pub fn put(at: usize, locator: u32) -> Op {
    Op { key: key(at), expect: None, value: Some(Value::Mapping(mapping(at, locator))) }
}

/// The key of mapping `at`.
pub fn key(at: usize) -> Key {
    Key::App4(Ipv4Addr::from_bits(0x0a00_0000 + at as u32))
}

/// The principal of host number `host`, which owns mapping `host` among others.
pub const fn principal(host: u32) -> PrincipalId {
    PrincipalId(FIRST_HOST + host)
}

/// The address of host number `host` on whose behalf it asks.
pub fn asker(host: u32) -> Key {
    key(host as usize)
}

/// Whether hosts of one service may resolve addresses of another.
pub const fn may_resolve(asker: ServiceId, target: ServiceId) -> bool {
    // How far behind the target the asker is, in the circle of services.
    let behind = (target.0 + SERVICES - asker.0) % SERVICES;
    behind == 0 || behind > REFUSED
}

fn service(at: usize) -> ServiceId {
    ServiceId(1 + at as u32 % SERVICES)
}

fn mapping(at: usize, locator: u32) -> Mapping {
    Mapping {
        locator: Locator::V4(Ipv4Addr::from_bits(0x6440_0000 + locator)),
        mac: None,
        group: GroupId(1),
        service: service(at),
        owner: principal(at as u32 % HOSTS),
        lease_ms: 60_000,
    }
}

/// The policy in its file's form.
pub fn policy() -> String {
    let mut text = "version = 1\n".to_owned();
    for target in 1..=SERVICES {
        let allowed = (1..=SERVICES).filter(|&asker| asker != target && may_resolve(ServiceId(asker), ServiceId(target)));
        let allowed: Vec<String> = allowed.map(|asker| format!("\"s{asker}\"")).collect();
        let _ = write!(text, "\n[[service]]\nname = \"s{target}\"\nid = {target}\nallow = [{}]\n", allowed.join(", "));
    }
    let role = |id: u32, role: &str| format!("\n[[principal]]\nid = {id}\nrole = \"{role}\"\n");
    text += &role(2, "admin");
    [1, 11, 12].into_iter().for_each(|id| text += &role(id, "server"));
    (FIRST_WRITER..FIRST_WRITER + WRITERS).for_each(|id| text += &role(id, "provisioner"));
    text
}

#[cfg(test)]
mod tests {
    use weft_control::directory::policy::Policy;

    use super::*;

    #[test]
    fn the_policy_says_what_the_truth_does() {
        let policy = Policy::parse(&policy()).unwrap();
        let mut refused = 0;
        for asker in 1..=SERVICES {
            for target in 1..=SERVICES {
                let (asker, target) = (ServiceId(asker), ServiceId(target));
                assert_eq!(policy.may_resolve(asker, target), may_resolve(asker, target), "{asker:?} {target:?}");
                refused += u32::from(!may_resolve(asker, target));
            }
        }
        assert_eq!(refused, SERVICES * REFUSED);
        assert!(policy.may_update(PrincipalId(FIRST_WRITER), &key(0), None, put(0, 1).value.as_ref()));
    }

    #[test]
    fn wrong_answers_are_distinguished_from_right_ones() {
        let mut truth = Truth::new(100);
        truth.committed(5, 7, Generation(3));
        truth.committed(5, 6, Generation(2));
        let right = Finding::Found(put(5, 7).value.unwrap());
        assert!(truth.is_right(5, 5, Generation(3), &right));
        assert!(!truth.is_right(5, 5, Generation(4), &right), "another generation");
        assert!(!truth.is_right(5, 5, Generation(3), &Finding::Found(put(5, 8).value.unwrap())), "another locator");
        assert!(!truth.is_right(5, 5, Generation(3), &Finding::Unknown));
        assert!(!truth.is_right(4, 5, Generation(3), &right), "host 4 is of the service before, which may not");
        assert!(truth.is_right(4, 5, Generation(3), &Finding::Forbidden));
        assert!(truth.is_right(4, 100, Generation(9), &Finding::Unknown));
    }
}
