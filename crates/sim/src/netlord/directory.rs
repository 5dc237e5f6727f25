//! A directory server that knows everything at once: the front of a real one, and its memory.

use std::net::SocketAddr;

use weft_control::directory::auth::{Cookies, PrincipalKey, Secret};
use weft_control::directory::front::{Front, FrontConfig, Verdict};
use weft_control::directory::policy::Policy;
use weft_control::directory::shared::Shared;
use weft_control::directory::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use weft_control::netlord::{Location, Vif};
use weft_control::wire::directory::{Message, Op, State, Update, Versions};
use weft_fabric::TenantId;
use weft_fabric::time::NsInstant;

/// The server, and what reaches it.
pub(super) struct Directory {
    secret: Secret,
    front: Front,
    shared: Shared,
}

const SERVER: PrincipalId = PrincipalId(1);
const POLICY: &str = "version = 1\n[[service]]\nname = \"tenants\"\nid = 1\n[[principal]]\nid = 1\nrole = \"server\"\n";
const LEASE_MS: u32 = 60_000;
/// Header and tag of a message.
const ENVELOPE: usize = 24 + 16;

impl Directory {
    pub fn new() -> Self {
        let secret = Secret::new([7; 32]);
        let policy = Policy::parse(POLICY).expect("it is a policy");
        let config = FrontConfig { me: SERVER, max_clients: 1 << 16, versions: Versions::OURS };
        let front = Front::new(secret.clone(), Cookies::new([3; 16]), config);
        let shared = Shared { revision: Generation(1), state: State::Serving, ..Shared::new(policy, 1) };
        Self { secret, front, shared }
    }

    pub fn address() -> SocketAddr {
        ([10, 255, 0, 1], 5303).into()
    }

    pub fn key_of(&self, principal: PrincipalId) -> PrincipalKey {
        self.secret.key_of(principal)
    }

    /// A VIF and its address are at a place now; the bytes of the update that says so, in a datagram.
    pub fn put(&mut self, vif: Vif, ip: std::net::Ipv4Addr, at: Location, owner: PrincipalId, withdraw: bool) -> usize {
        self.shared.revision.0 += 1;
        let Vif { tenant, space, mac } = vif;
        let value = |mac| {
            Value::Mapping(Mapping {
                locator: Locator::Edge { switch: at.switch, port: u16::from(at.port.get()) },
                mac,
                group: GroupId(0),
                service: ServiceId(1),
                owner,
                lease_ms: LEASE_MS,
            })
        };
        let changes = [(Key::TenantMac(tenant, space, mac), value(None)), (Key::TenantIp4(tenant, space, ip), value(Some(mac)))];
        for (key, value) in &changes {
            self.shared.table.load(key, self.shared.revision, Some(value));
            if withdraw {
                self.shared.withdrawals.push(self.shared.revision, *key);
            }
        }
        let ops = changes.into_iter().map(|(key, value)| Op { key, expect: None, value: Some(value) }).collect();
        let mut bytes = Vec::new();
        Message::Update(Update { number: 0, known: Generation(0), ops }).emit(&mut bytes);
        ENVELOPE + bytes.len()
    }

    /// The answer to a datagram.
    pub fn answer(&mut self, now: NsInstant, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let verdict = self.front.receive(now, &self.shared, from, bytes, &mut out);
        matches!(verdict, Verdict::Answer).then_some(out)
    }
}

/// The tenant of a VM.
pub(super) const fn tenant(number: u32) -> TenantId {
    TenantId(number + 3)
}
