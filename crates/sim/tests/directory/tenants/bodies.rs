//! The records of a trial: their names, and bodies in the store's form, each like no other.

use std::collections::BTreeMap;

use rand::RngExt;
use weft_control::directory::PrincipalId;
use weft_control::netlord::tenants::records::{ListedState, Name, Question};
use weft_fabric::rng::Pcg64;
use weft_sim::directory::cluster::operator_principal;
use weft_sim::directory::records::Records;

use super::SUBSCRIBERS;

pub const TENANTS: [&str; 3] = ["acme", "globex", "initech"];
pub const VIFS: [&str; 3] = ["v0", "v1", "v2"];
const ROUTERS: [&str; 2] = ["r0", "r1"];

/// A record at random.
pub fn any_name(rng: &mut Pcg64) -> Name {
    let tenant = TENANTS[rng.random_range(0..TENANTS.len())].to_owned();
    match rng.random_range(0..20) {
        0 => Name::Site,
        1..=4 => Name::Tenant(tenant),
        5..=8 => Name::Router(tenant, ROUTERS[rng.random_range(0..ROUTERS.len())].to_owned()),
        _ => any_vif(rng, tenant),
    }
}

pub fn any_vif(rng: &mut Pcg64, tenant: String) -> Name {
    Name::Vif(tenant, VIFS[rng.random_range(0..VIFS.len())].to_owned())
}

/// A body of a record that no other has. It may contradict others: an address is another's, or a tenant takes nothing any more.
pub fn body(rng: &mut Pcg64, name: &Name, number: u32) -> String {
    let [_, _, high, low] = number.to_be_bytes();
    let mac = format!("02:00:00:01:{high:02x}:{low:02x}");
    match name {
        Name::Site => format!("service = {number}\n"),
        Name::Tenant(tenant) => {
            let own = 17 + TENANTS.iter().position(|it| it == tenant).unwrap_or(0) as u32;
            let id = if rng.random_range(0..8) == 0 { rng.random_range(17..20) } else { own };
            // The number makes it unique; whether each of the subscribers may read it is chosen.
            let mut readers = vec![1_000_000 + number];
            readers.extend(SUBSCRIBERS.map(|n| operator_principal(n).0).filter(|_| rng.random_range(0..4) > 0));
            readers.sort_unstable();
            let closing = if tenant == TENANTS[2] && rng.random_range(0..6) == 0 { "closing = true\n" } else { "" };
            format!("id = {id}\nspaces = [1]\nreaders = {readers:?}\n{closing}")
        }
        Name::Router(_, router) => {
            let last = if router == ROUTERS[0] { 254 } else { 253 };
            format!("route = []\nrule = []\n\n[[interfaces]]\nspace = 1\nmac = \"{mac}\"\naddress = \"10.0.0.{last}/24\"\n")
        }
        Name::Vif(..) => {
            let is_public = rng.random_range(0..6) == 0;
            let (space, network) = if is_public { ("\"public\"", "203.0.113") } else { ("1", "10.0.0") };
            let addresses = match rng.random_range(0..3) {
                0 => "[]".to_owned(),
                _ => format!("[\"{network}.{}\"]", rng.random_range(1..4)),
            };
            format!("space = {space}\nmac = \"{mac}\"\naddresses = {addresses}\n")
        }
    }
}

/// What an answer to a question is to say at a revision, by the rules and nothing else.
pub fn expected(records: &Records, revision: u64, question: &Question, principal: PrincipalId) -> BTreeMap<String, ListedState> {
    let mut all = BTreeMap::new();
    let state = |name: &str| match records.get_at(name, revision) {
        Some((generation, body)) => ListedState::Present(generation, body.to_owned()),
        None => ListedState::Absent,
    };
    all.insert("site".to_owned(), state("site"));
    for (tenant, vifs) in &question.tenants {
        let head = format!("t/{tenant}");
        if !may_read(records, revision, tenant, principal) {
            all.insert(head, ListedState::Forbidden);
            continue;
        }
        all.extend(vifs.iter().map(|vif| format!("v/{tenant}/{vif}")).map(|name| (name.clone(), state(&name))));
        let routers = ROUTERS.iter().map(|router| format!("r/{tenant}/{router}"));
        all.extend(routers.map(|name| (name.clone(), state(&name))).filter(|(_, it)| *it != ListedState::Absent));
        let tenant = state(&head);
        all.insert(head, tenant);
    }
    all
}

/// Whether a host may read a tenant: it is among the readers, or there is no tenant.
fn may_read(records: &Records, revision: u64, tenant: &str, principal: PrincipalId) -> bool {
    let Some((_, body)) = records.get_at(&format!("t/{tenant}"), revision) else { return true };
    let readers = body.lines().find_map(|line| line.strip_prefix("readers = [")?.strip_suffix(']'));
    readers.is_none_or(|readers| readers.split(", ").any(|reader| reader == principal.0.to_string()))
}
