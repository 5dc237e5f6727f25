use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::{NewTenant, Tenants, append_tenant};
use super::plan::Found;
use super::*;
use crate::directory::PrincipalId;
use crate::directory::request::StreamId;

/// A store of entries: what every real one does.
#[derive(Debug, Default)]
struct Store {
    revision: u64,
    entries: BTreeMap<String, (u64, String)>,
}

impl Store {
    fn read(&self, reads: &Reads) -> Entries {
        let mut found: BTreeMap<&String, &(u64, String)> =
            reads.names.iter().filter_map(|name| self.entries.get_key_value(name)).collect();
        for (prefix, limit) in &reads.prefixes {
            found.extend(self.entries.iter().filter(|(name, _)| name.starts_with(prefix)).take(*limit));
        }
        let of = |(name, (generation, body)): (&String, &(u64, String))| Found {
            name: name.clone(),
            generation: *generation,
            body: body.clone(),
        };
        Entries { revision: self.revision, found: found.into_iter().map(of).collect() }
    }

    fn commit(&mut self, plan: &Plan) -> StoreAnswer {
        let generation = |name| self.entries.get(name).map_or(0, |(generation, _)| *generation);
        if plan.checks.iter().any(|(name, expect)| generation(name) != *expect) {
            return StoreAnswer::Conflict;
        }
        self.revision += 1;
        for (name, body) in &plan.writes {
            match body {
                Some(body) => self.entries.insert(name.clone(), (self.revision, body.clone())),
                None => self.entries.remove(name),
            };
        }
        StoreAnswer::Committed(self.revision)
    }

    fn answer(&self, step: &Step) -> Option<StoreAnswer> {
        match step {
            Step::Read(reads) => Some(StoreAnswer::Entries(self.read(reads))),
            Step::Commit(_) | Step::Done(_) => None,
        }
    }

    /// Without interruption by others.
    fn amend(&mut self, ops: &[Op]) -> Outcome {
        let mut amendment = Amendment::new(ops.to_vec());
        let mut step = amendment.begin();
        loop {
            step = match step {
                Step::Read(reads) => amendment.next(StoreAnswer::Entries(self.read(&reads))),
                Step::Commit(plan) => amendment.next(self.commit(&plan)),
                Step::Done(outcome) => return outcome,
            };
        }
    }

    /// The records, which are what the file would be.
    fn records(&self) -> BTreeMap<Name, String> {
        self.entries.iter().filter_map(|(name, (_, body))| Some((name.parse().ok()?, body.clone()))).collect()
    }

    fn whole(&self) -> Tenants {
        whole(&self.records()).expect("what the store has is right")
    }

    /// The addresses that are taken are those of the records, no more and no less.
    fn check(&self) {
        let all = self.whole();
        let mut expected = BTreeMap::new();
        for tenant in all.tenants.values() {
            expected.insert(format!("i/{}", tenant.id.0), tenant.name.clone());
            let of_vifs = tenant.vifs.iter().map(|it| Name::Vif(tenant.name.clone(), it.name.clone()));
            let of_routers = tenant.routers.iter().map(|it| Name::Router(tenant.name.clone(), it.name.clone()));
            for name in of_vifs.chain(of_routers) {
                let body = &self.entries[&name.to_string()].1;
                let index = super::body::index(tenant.id, &name, body).unwrap();
                expected.extend(index.into_iter().map(|key| (key, name.to_string())));
            }
        }
        let indexed = |name: &str| ["i/", "m/", "a/"].iter().any(|prefix| name.starts_with(prefix));
        let held = self.entries.iter().filter(|(name, _)| indexed(name)).map(|(name, (_, body))| (name.clone(), body.clone()));
        assert_eq!(held.collect::<BTreeMap<_, _>>(), expected);
    }
}

fn whole(records: &BTreeMap<Name, String>) -> Result<Tenants, super::super::TenantsError> {
    tenants_of(1, records.iter().map(|(name, body)| (name, body.as_str())))
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn put(text: &str, body: &str) -> Op {
    Op { name: name(text), expect: None, body: Some(body.to_owned()) }
}

fn delete(text: &str) -> Op {
    Op { name: name(text), expect: None, body: None }
}

fn acme() -> Store {
    let mut store = Store::default();
    let ops = [
        put("site", "service = 1"),
        put("t/acme", "id = 17\nspaces = [1, 2]"),
        put("t/globex", "id = 18"),
        put("v/acme/web1", "space = 1\nmac = \"02:00:00:00:00:01\"\naddresses = [\"10.0.0.1\"]"),
        put("r/acme/core", CORE),
    ];
    assert_eq!(store.amend(&ops), Outcome::Committed(1));
    store.check();
    store
}

/// A VIF gets an address after its record was read and before the address is: its next address, and another VIF with the one it lets go, are no contradiction.
#[test]
fn what_is_read_of_two_revisions_refuses_nothing() {
    let vif = |name: &str, mac: u8, address: &str| {
        put(&format!("v/acme/{name}"), &format!("space = 1\nmac = \"02:00:00:00:00:0{mac}\"\naddresses = [\"{address}\"]"))
    };
    let mut store = acme();
    assert!(matches!(store.amend(&[vif("web1", 1, "10.0.0.5")]), Outcome::Committed(_)));
    let ops = vec![vif("web1", 1, "10.0.0.9"), vif("web2", 2, "10.0.0.6")];
    let mut amendment = Amendment::new(ops);
    let records = amendment.begin();
    let addresses = amendment.next(store.answer(&records).expect("it reads the records"));
    assert!(matches!(store.amend(&[vif("web1", 1, "10.0.0.6")]), Outcome::Committed(_)));
    let again = amendment.next(store.answer(&addresses).expect("it reads the addresses"));
    let answer = store.answer(&again).expect("it reads all at one revision");
    let Step::Commit(plan) = amendment.next(answer) else { panic!("nothing contradicts it") };
    assert!(matches!(store.commit(&plan), StoreAnswer::Committed(_)));
    store.check();
    // What contradicts itself at one revision is refused.
    assert!(matches!(store.amend(&[vif("web2", 2, "10.0.0.9")]), Outcome::Invalid(0, why) if why.contains("web1")));
}

#[test]
fn the_id_of_a_tenant_that_is_removed_is_free_at_once() {
    for (old, new) in [("acme", "globex"), ("globex", "acme")] {
        let mut store = Store::default();
        store.amend(&[put("site", "service = 1"), put(&format!("t/{old}"), "id = 17\nclosing = true")]);
        let third = put("t/initech", "id = 17");
        assert!(matches!(store.amend(std::slice::from_ref(&third)), Outcome::Invalid(..)));
        let ops = [put(&format!("t/{new}"), "id = 17"), delete(&format!("t/{old}"))];
        assert!(matches!(store.amend(&ops), Outcome::Committed(_)), "{old} to {new}");
        store.check();
        // Only one may have it.
        let ops = [put(&format!("t/{old}"), "id = 18"), third];
        assert!(matches!(store.amend(&ops), Outcome::Invalid(1, why) if why.contains(&format!("id 17 is `{new}`'s already"))));
    }
}

const CORE: &str = "interfaces = [{ space = 1, mac = \"02:00:00:00:00:fe\", address = \"10.0.0.254/24\" }]";
const FAR: &str = "interfaces = [{ space = 1, mac = \"02:00:00:00:00:fd\", address = \"10.0.0.253/24\" }]
[[route]]
to = \"10.9.0.0/16\"
via = \"10.0.0.254\"";

#[test]
fn records_that_contradict_are_refused_by_name() {
    let vif = |rest: &str| format!("space = 1\nmac = \"02:00:00:00:00:09\"\n{rest}");
    let mut store = acme();
    let back = format!("{CORE}\n[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.0.253\"");
    assert!(matches!(store.amend(&[put("r/acme/far", FAR)]), Outcome::Committed(_)));
    for (op, said) in [
        (put("t/initech", "id = 17"), "tenant `initech`: id 17 is `acme`'s already"),
        (put("t/initech", "id = 2"), "id 2 is reserved"),
        (put("t/acme", "id = 19\nspaces = [1, 2]"), "tenant `acme` has id 17, which cannot change"),
        (put("t/acme", "id = 17\nspaces = [1]"), "has MAC space 2, which cannot be taken"),
        (
            put("v/acme/x", "space = 1\nmac = \"02:00:00:00:00:01\""),
            "vif `x` of `acme`: MAC address 02:00:00:00:00:01 is vif `web1` of `acme`'s already in MAC space 1",
        ),
        (put("v/acme/x", &vif("addresses = [\"10.0.0.1\"]")), "address 10.0.0.1 is vif `web1` of `acme`'s already"),
        (put("v/acme/x", &vif("addresses = [\"10.0.0.254\"]")), "10.0.0.254 is router `core` of `acme`'s already"),
        (put("v/acme/x", "space = 3\nmac = \"02:00:00:00:00:09\""), "`acme` has no MAC space 3"),
        (put("v/initech/x", &vif("")), "there is no tenant `initech`"),
        (put("v/acme/x", "mac = 1"), "vif `x` of `acme`"),
        (put("r/acme/core", &back), "would go round: `far` -> `core` -> `far`"),
        (put("r/acme/core", &format!("{CORE}\n[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.7.0.1\"")), "lies in no subnet"),
        (delete("t/acme"), "tenant `acme` is not empty"),
        (delete("site"), "stays"),
    ] {
        let before = store.entries.clone();
        match store.amend(std::slice::from_ref(&op)) {
            Outcome::Invalid(0, why) => assert!(why.contains(said), "{why}\n{said}"),
            other => panic!("{op:?}: {other:?}"),
        }
        assert_eq!(store.entries, before, "nothing was changed");
    }
    // The same pair in one change, and in another tenant.
    let twice = [put("v/acme/x", &vif("")), put("v/acme/y", &vif(""))];
    assert!(matches!(store.amend(&twice), Outcome::Invalid(_, why) if why.contains("vif `x` of `acme`'s already")));
    assert!(matches!(store.amend(&[put("v/globex/x", &vif("addresses = [\"10.0.0.1\"]"))]), Outcome::Committed(_)));
    // The public space is everybody's.
    let public = "space = \"public\"\nmac = \"02:00:00:00:00:01\"\naddresses = [\"203.0.113.7\"]";
    assert!(matches!(store.amend(&[put("v/globex/p", public)]), Outcome::Committed(_)));
    assert!(
        matches!(store.amend(&[put("v/acme/p", public)]), Outcome::Invalid(0, why) if why.contains("is vif `p` of `globex`'s already"))
    );
    let long = "x".repeat(MAX_BODY + 1);
    assert!(matches!(store.amend(&[put("r/acme/core", &long)]), Outcome::Invalid(0, why) if why.contains("60000 bytes")));
    store.check();
}

#[test]
fn an_address_passes_from_one_to_another_in_one_change() {
    let mut store = acme();
    let web2 = put("v/acme/web2", "space = 1\nmac = \"02:00:00:00:00:01\"\naddresses = [\"10.0.0.1\"]");
    assert!(matches!(store.amend(std::slice::from_ref(&web2)), Outcome::Invalid(..)));
    assert!(matches!(store.amend(&[web2, delete("v/acme/web1")]), Outcome::Committed(_)));
    store.check();
}

#[test]
fn an_expected_generation_is_compared() {
    let mut store = acme();
    let expect = |op: Op, expect| Op { expect: Some(expect), ..op };
    assert_eq!(store.amend(&[expect(put("r/acme/core", FAR), 0)]), Outcome::Conflict(0, 1));
    assert_eq!(store.amend(&[expect(put("r/acme/core", FAR), 1)]), Outcome::Committed(2));
    assert_eq!(
        store.amend(&[expect(delete("v/acme/none"), 0), put("r/acme/core", FAR)]),
        Outcome::Committed(2),
        "nothing changes"
    );
    assert_eq!(store.revision, 2);
}

#[test]
fn a_tenant_is_closed_emptied_and_removed() {
    let mut store = acme();
    let closed = put("t/acme", "id = 17\nspaces = [1, 2]\nclosing = true");
    // A VIF that was planned before the tenant was closed does not come after it.
    let late = put("v/acme/late", "space = 1\nmac = \"02:00:00:00:00:0a\"");
    let mut amendment = Amendment::new(vec![late]);
    let mut step = amendment.begin();
    while let Some(answer) = store.answer(&step) {
        step = amendment.next(answer);
    }
    assert!(matches!(store.amend(&[closed]), Outcome::Committed(_)));
    let Step::Commit(plan) = step else { panic!("{step:?}") };
    assert_eq!(store.commit(&plan), StoreAnswer::Conflict);
    assert!(
        matches!(store.amend(&[put("v/acme/x", "space = 1\nmac = \"02:00:00:00:00:0a\"")]), Outcome::Invalid(_, why) if why.contains("being removed"))
    );
    assert!(
        matches!(store.amend(&[delete("t/acme")]), Outcome::Invalid(_, why) if why.contains("router `core` of `acme`") || why.contains("vif `web1`"))
    );
    assert!(matches!(store.amend(&[delete("v/acme/web1"), delete("r/acme/core")]), Outcome::Committed(_)));
    assert!(matches!(store.amend(&[delete("t/acme")]), Outcome::Committed(_)));
    store.check();
    let left: Vec<&String> = store.entries.keys().collect();
    assert_eq!(left, ["i/18", "l/globex", "site", "t/globex"]);
}

#[test]
fn a_tenants_readers_alone_read_it() {
    let mut store = acme();
    assert!(matches!(store.amend(&[put("t/acme", "id = 17\nspaces = [1, 2]\nreaders = [41, 40]")]), Outcome::Committed(_)));
    let reads = reads_of([("acme", &["web1", "none"][..]), ("globex", &[][..])]);
    let states = |principal, reads_all| {
        let (has_records, listed) = answer(&reads, store.read(&reads), PrincipalId(principal), reads_all);
        assert!(has_records);
        let word = |it: Listed| match it.state {
            ListedState::Present(..) => it.name,
            ListedState::Absent => format!("no {}", it.name),
            ListedState::Forbidden => format!("not {}", it.name),
        };
        listed.into_iter().map(word).collect::<Vec<_>>()
    };
    let all = ["site", "t/acme", "v/acme/web1", "no v/acme/none", "t/globex", "r/acme/core"];
    assert_eq!(states(40, false), all);
    assert_eq!(states(7, true), all);
    assert_eq!(states(42, false), ["site", "not t/acme", "t/globex"]);
    let mut view = View::new();
    view.want([("acme".to_owned(), "web1".to_owned()), ("initech".to_owned(), "x".to_owned())]);
    ask(&mut view, &store, 42);
    let why: Vec<Why> = view.missing().into_iter().map(|it| it.why).collect();
    assert_eq!(why, [Why::Forbidden, Why::NoTenant]);
    assert!(view.tenants(1).unwrap().tenants.is_empty());
    assert!(!answer(&reads, Entries::default(), PrincipalId(1), true).0, "a store without records");
}

#[test]
fn a_file_and_its_records_turn_into_each_other() {
    let text =
        append_tenant("version = 6\nservice = 3\n", &NewTenant { id: 19, name: "x", spaces: &[4], readers: Some(&[7, 8]) });
    let text = format!(
        "{text}[[router]]\ntenant = \"x\"\nname = \"r\"\ninterfaces = [{{ space = 4, mac = \"02:00:00:00:00:fe\", address = \"fd00::1/64\" }}]\n\
         [[rule]]\ntenant = \"x\"\nrouter = \"r\"\naction = \"deny\"\nprotocol = \"tcp\"\nport = \"22-23\"\n\
         [[rule]]\ntenant = \"x\"\nrouter = \"r\"\naction = \"allow\"\nprotocol = 89\nfrom = \"fd00::/64\"\n\
         [[route]]\ntenant = \"x\"\nrouter = \"r\"\nto = \"::/0\"\nvia = \"fd00::2\"\n"
    );
    let all = Tenants::parse(&text).unwrap();
    let records = records_of(&all);
    let again = tenants_of(all.version, records.iter().map(|(name, body)| (name, body.as_str()))).unwrap();
    assert_eq!((&again, records_of(&again)), (&all, records));
    assert_eq!(Tenants::parse(&all.to_text()).unwrap(), all);
    for text in ["", "t", "t/", "x/acme", "t/a/b", "v/acme", "v/acme/a b", "site/", "i/17"] {
        assert!(text.parse::<Name>().is_err(), "{text}");
    }
}

/// The agent asks, and gets an answer.
fn ask(view: &mut View, store: &Store, principal: u32) {
    let question = view.question();
    view.asked(&question);
    let wanted: Vec<(&str, Vec<&str>)> =
        question.tenants.iter().map(|(tenant, vifs)| (tenant.as_str(), vifs.iter().map(String::as_str).collect())).collect();
    let reads = reads_of(wanted.iter().map(|(tenant, vifs)| (*tenant, vifs.as_slice())));
    let (_, listed) = answer(&reads, store.read(&reads), PrincipalId(principal), false);
    view.answered(&question, listed);
}

/// What an agent with these VIFs is to have.
fn restricted(mut all: Tenants, wanted: &BTreeSet<(String, String)>) -> Tenants {
    all.tenants.retain(|_, tenant| wanted.iter().any(|(of, _)| *of == tenant.name));
    for tenant in all.tenants.values_mut() {
        tenant.vifs.retain(|vif| wanted.contains(&(tenant.name.clone(), vif.name.clone())));
    }
    all
}

fn any_op() -> impl Strategy<Value = Op> {
    let tenant = prop::sample::select(vec!["acme", "globex", "initech"]);
    let spaces = prop::sample::select(vec!["1", "2", "\"public\""]);
    let macs = prop::sample::select(vec![1u8, 2, 3, 4]);
    let addresses =
        prop::collection::btree_set(prop::sample::select(vec!["10.0.0.1", "10.0.1.1", "10.0.0.254", "10.0.1.253"]), 0..3);
    let head = (tenant.clone(), 17u32..20, any::<bool>()).prop_map(|(tenant, id, closing)| {
        let closing = if closing { "\nclosing = true" } else { "" };
        put(&format!("t/{tenant}"), &format!("id = {id}\nspaces = [1, 2]{closing}"))
    });
    let vif = (tenant.clone(), 0u8..4, spaces, macs, addresses).prop_map(|(tenant, n, space, mac, addresses)| {
        put(&format!("v/{tenant}/v{n}"), &format!("space = {space}\nmac = \"02:00:00:00:00:0{mac}\"\naddresses = {addresses:?}"))
    });
    let router = (tenant.clone(), 0u8..2, any::<[bool; 2]>(), 1u8..5).prop_map(|(tenant, n, [first, second], mac)| {
        let last = 254 - n;
        let mut body =
            format!("interfaces = [{{ space = 1, mac = \"02:00:00:00:00:0{mac}\", address = \"10.0.0.{last}/24\" }}]\n");
        let via = 254 - (1 - n);
        if first {
            body += &format!("[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.0.{via}\"\n");
        }
        if second {
            body += &format!(
                "[[route]]\nto = \"10.8.0.0/16\"\nvia = \"10.0.0.{via}\"\n[[rule]]\naction = \"deny\"\nprotocol = \"icmp\"\n"
            );
        }
        put(&format!("r/{tenant}/r{n}"), &body)
    });
    let gone = (tenant, prop::sample::select(vec!["t", "r", "v"]), 0u8..4).prop_map(|(tenant, kind, n)| match kind {
        "t" => delete(&format!("t/{tenant}")),
        "r" => delete(&format!("r/{tenant}/r{}", n % 2)),
        _ => delete(&format!("v/{tenant}/v{n}")),
    });
    prop_oneof![2 => head, 6 => vif, 3 => router, 3 => gone]
}

/// What the rules say of a change, from all that there is: the slow way.
fn expected(store: &Store, ops: &[Op]) -> Option<BTreeMap<Name, String>> {
    let before = store.records();
    let mut after = before.clone();
    let is_closing =
        |records: &BTreeMap<Name, String>, tenant: &Name| records.get(tenant).is_some_and(|it| it.contains("closing"));
    for op in ops {
        let tenant = Name::Tenant(op.name.tenant()?.to_owned());
        let others = |(name, _): &(&Name, &String)| name.tenant() == tenant.tenant() && **name != tenant;
        match &op.body {
            None if op.name == tenant => {
                if ops.iter().filter(|it| it.name.tenant() == tenant.tenant()).count() > 1 {
                    return None;
                }
                let is_full = before.iter().any(|it| others(&it));
                if before.contains_key(&tenant) && (is_full || !is_closing(&before, &tenant)) {
                    return None;
                }
                after.remove(&op.name);
            }
            None => {
                let makes = ops.iter().any(|it| it.name == tenant && it.body.is_some());
                if !before.contains_key(&tenant) && !makes {
                    return None;
                }
                after.remove(&op.name);
            }
            Some(body) => {
                after.insert(op.name.clone(), body.clone());
            }
        }
    }
    for op in ops {
        let tenant = Name::Tenant(op.name.tenant()?.to_owned());
        let closed = is_closing(&before, &tenant) || is_closing(&after, &tenant);
        if op.name == tenant && op.body.is_some() && is_closing(&before, &tenant) && !is_closing(&after, &tenant) {
            // What is closed stays so.
            let body = after[&tenant].clone() + "\nclosing = true";
            after.insert(tenant.clone(), body);
        }
        if op.name != tenant && op.body.is_some() && closed {
            return None;
        }
        let id = |records: &BTreeMap<Name, String>| {
            records.get(&tenant).and_then(|it| it.lines().find(|line| line.starts_with("id")).map(str::to_owned))
        };
        if let (Some(old), Some(new)) = (id(&before), id(&after))
            && old != new
        {
            return None;
        }
    }
    whole(&after).ok()?;
    Some(after)
}

fn distinct(ops: Vec<Op>) -> Vec<Op> {
    let mut names = BTreeSet::new();
    ops.into_iter().filter(|op| names.insert(op.name.clone())).collect()
}

fn steps() -> impl Strategy<Value = Vec<Vec<Op>>> {
    prop::collection::vec(prop::collection::vec(any_op(), 1..4).prop_map(distinct), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]

    /// Records after changes are the file after the same changes, and what the file's rules refuse is refused.
    #[test]
    fn records_are_what_the_file_would_be(changes in steps()) {
        let mut store = Store::default();
        store.amend(&[put("site", "service = 1")]);
        for ops in changes {
            let expected = expected(&store, &ops);
            let outcome = store.amend(&ops);
            match (&outcome, expected) {
                (Outcome::Committed(_), Some(after)) => {
                    prop_assert_eq!(store.whole(), whole(&after).unwrap());
                    store.check();
                }
                (Outcome::Invalid(..), None) => {}
                (outcome, expected) => prop_assert!(false, "{ops:?}: {outcome:?}, and the file says {expected:?}"),
            }
        }
    }

    /// However the steps of several changes mix, what is there is right; and agents that were notified have their part of it.
    #[test]
    fn mixed_changes_leave_nothing_wrong(
        changes in steps(),
        order in prop::collection::vec(0usize..4, 0..300),
        wanted in prop::collection::vec(prop::collection::btree_set((prop::sample::select(vec!["acme", "globex", "initech"]), 0u8..4), 0..4), 3),
    ) {
        let mut store = Store::default();
        store.amend(&[put("site", "service = 1"), put("t/acme", "id = 17\nspaces = [1, 2]"), put("t/globex", "id = 18\nspaces = [1, 2]")]);
        let wanted: Vec<BTreeSet<(String, String)>> =
            wanted.into_iter().map(|all| all.into_iter().map(|(tenant, n)| (tenant.to_owned(), format!("v{n}"))).collect()).collect();
        let (mut interest, mut views) = (Interest::new(), Vec::new());
        for (at, wanted) in wanted.iter().enumerate() {
            let mut view = View::new();
            view.want(wanted.iter().cloned());
            view.connected();
            subscribe(&mut interest, at, &view);
            ask(&mut view, &store, 40);
            views.push(view);
        }
        let mut waiting = changes.into_iter();
        let mut open: Vec<(Amendment, Step)> = Vec::new();
        let mut order = order.into_iter();
        loop {
            while open.len() < 4 && let Some(ops) = waiting.next() {
                let mut amendment = Amendment::new(ops);
                let step = amendment.begin();
                open.push((amendment, step));
            }
            if open.is_empty() {
                break;
            }
            let at = order.next().unwrap_or(0) % open.len();
            let (amendment, step) = &mut open[at];
            let answer = match step {
                Step::Done(_) => {
                    open.remove(at);
                    continue;
                }
                Step::Read(reads) => StoreAnswer::Entries(store.read(reads)),
                Step::Commit(plan) => {
                    let answer = store.commit(plan);
                    if matches!(answer, StoreAnswer::Committed(_)) {
                        plan.writes.iter().filter_map(|(name, _)| name.parse().ok()).for_each(|name: Name| interest.changed(&name));
                    }
                    answer
                }
            };
            *step = amendment.next(answer);
            store.check();
        }
        while let Some((StreamId(at), tenants)) = interest.poll() {
            let view = &mut views[at as usize];
            view.notified(tenants.iter().map(String::as_str));
            subscribe(&mut interest, at as usize, view);
            ask(view, &store, 40);
        }
        for (view, wanted) in views.iter().zip(&wanted) {
            prop_assert_eq!(view.tenants(1).unwrap(), restricted(store.whole(), wanted));
        }
    }
}

fn subscribe(interest: &mut Interest, at: usize, view: &View) {
    let question = view.question();
    if question.fresh {
        interest.clear(StreamId(at as u64));
    }
    interest.open(StreamId(at as u64));
    for (tenant, vifs) in &question.tenants {
        interest.subscribe(StreamId(at as u64), tenant, vifs.iter().map(String::as_str));
    }
}

#[test]
fn one_notice_is_enough_until_the_agent_asks() {
    let mut interest = Interest::new();
    interest.open(StreamId(1));
    interest.subscribe(StreamId(1), "acme", ["web1"]);
    interest.subscribe(StreamId(2), "acme", ["web2"]);
    interest.changed(&name("v/acme/web1"));
    interest.changed(&name("v/acme/web1"));
    interest.changed(&name("v/globex/web1"));
    assert_eq!(interest.poll(), Some((StreamId(1), vec!["acme".to_owned()])));
    assert_eq!(interest.poll(), None);
    interest.changed(&name("t/acme"));
    assert_eq!(interest.poll(), Some((StreamId(2), vec!["acme".to_owned()])), "the other was notified and has not asked");
    interest.subscribe(StreamId(1), "acme", ["web1"]);
    interest.changed(&name("r/acme/core"));
    assert_eq!(interest.poll(), Some((StreamId(1), vec!["acme".to_owned()])));
    interest.clear(StreamId(1));
    interest.changed(&name("site"));
    assert_eq!((interest.poll(), interest.poll()), (Some((StreamId(2), vec![String::new()])), None));
}

/// An agent with one VIF, which has asked for it.
fn asking() -> (View, Question) {
    let mut view = View::new();
    view.want([("acme".to_owned(), "web1".to_owned())]);
    view.connected();
    let question = view.question();
    view.asked(&question);
    (view, question)
}

#[test]
fn a_notice_of_all_tenants_before_the_answer_is_kept() {
    let (mut view, question) = asking();
    view.notified([""]);
    view.answered(&question, []);
    assert!(view.is_due(), "the answer may be older than the notice");
    assert_eq!(view.question(), question);
}

/// A store without records gives no answer to take; that it has some is what a notice says.
#[test]
fn what_was_asked_is_not_due_until_something_happens() {
    let (mut view, question) = asking();
    assert!(!view.is_due());
    assert_eq!(view.question(), Question::default(), "only whether the server is well");
    view.notified([""]);
    assert_eq!(view.question(), question);
}

#[test]
fn a_tenant_that_is_no_longer_wanted_is_not_due() {
    let mut view = View::new();
    view.connected();
    view.want([("acme".to_owned(), "web1".to_owned())]);
    view.want([]);
    let question = view.question();
    assert_eq!(question.tenants, []);
    view.asked(&question);
    assert!(!view.is_due());
}
