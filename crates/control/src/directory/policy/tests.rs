use std::net::Ipv4Addr;

use weft_fabric::MacAddr;

use super::*;
use crate::directory::key::GroupId;

const POLICY: &str = r#"
    version = 3
    [[service]]
    name = "web"
    id = 70000
    allow = ["*"]
    deny = ["batch"]
    [[service]]
    name = "db"
    id = 2
    allow = ["web"]
    [[service]]
    name = "batch"
    id = 9
    [[principal]]
    id = 1
    role = "provisioner"
    services = ["db"]
    [[principal]]
    id = 2
    role = "admin"
    [[principal]]
    id = 3
    role = "switch"
    [[principal]]
    id = 4
    role = "server"
    [[principal]]
    id = 5
    role = "provisioner"
"#;

fn mapping(service: u32) -> Value {
    Value::Mapping(Mapping {
        locator: Locator::V4(Ipv4Addr::LOCALHOST),
        mac: None,
        group: GroupId(0),
        service: ServiceId(service),
        owner: PrincipalId(0),
        lease_ms: 0,
    })
}

#[test]
fn services_resolve_themselves_and_whom_they_are_allowed() {
    let policy = Policy::parse(POLICY).unwrap();
    let (web, db, batch) = (70_000, 2, 9);
    let may = |asker, target| policy.may_resolve(ServiceId(asker), ServiceId(target));
    for service in [web, db, batch] {
        assert!(may(service, service));
    }
    assert!(may(web, db) && may(db, web));
    assert!(!may(batch, web), "denied though all are allowed");
    assert!(!may(batch, db) && !may(web, batch) && !may(db, batch));
    // Never open for what is not known.
    assert!(!may(0, web) && !may(web, 0) && !may(0, 0) && !may(5, 5));
}

#[test]
fn roles_say_who_changes_what() {
    let policy = Policy::parse(POLICY).unwrap();
    let key = Key::App4(Ipv4Addr::LOCALHOST);
    let may = |id, old: Option<u32>, new: Option<u32>| {
        policy.may_update(PrincipalId(id), &key, old.map(mapping).as_ref(), new.map(mapping).as_ref())
    };
    assert!(may(1, None, Some(2)) && may(1, Some(2), None) && may(1, Some(2), Some(2)));
    assert!(!may(1, None, Some(9)) && !may(1, Some(9), None) && !may(1, Some(9), Some(2)) && !may(1, None, Some(0)));
    assert!(may(2, Some(9), Some(2)) && may(5, Some(9), None));
    assert!(!may(3, None, Some(2)) && !may(4, None, Some(2)) && !may(77, None, Some(2)), "switches, servers and hosts");
    assert_eq!(policy.role(PrincipalId(77)), Role::Host);
    assert!(!policy.may_list(PrincipalId(1)) && policy.may_list(PrincipalId(5)) && !policy.may_list(PrincipalId(77)));
    assert!(policy.may_report(PrincipalId(3)) && !policy.may_report(PrincipalId(77)));
    assert!(!policy.resolves_all(PrincipalId(3)) && policy.resolves_all(PrincipalId(2)));
}

/// A mapping of these fields.
fn at(locator: &str, owner: u32) -> Mapping {
    Mapping {
        locator: locator.parse().unwrap(),
        mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
        group: GroupId(1),
        service: ServiceId(2),
        owner: PrincipalId(owner),
        lease_ms: 60_000,
    }
}

const MOVERS: &str = r#"
    version = 1
    [[service]]
    name = "db"
    id = 2
    [[principal]]
    id = 40
    role = "switch"
    locators = ["10.1.1.1", "fd00::1"]
    [[principal]]
    id = 41
    role = "switch"
    [[principal]]
    id = 17
    role = "host"
    locators = ["10.1.1.9"]
    [[principal]]
    id = 18
    role = "host"
"#;

#[test]
fn a_switch_brings_addresses_to_itself_and_changes_nothing_else() {
    let policy = Policy::parse(MOVERS).unwrap();
    let aa = "20.0.0.5".parse().unwrap();
    let may = |who, key: &Key, old: Option<Value>, new: Option<Value>| {
        policy.may_update(PrincipalId(who), key, old.as_ref(), new.as_ref())
    };
    let value = |mapping| Some(Value::Mapping(mapping));
    let (there, here) = (at("10.1.2.1", 17), at("10.1.1.1", 17));
    assert!(may(40, &aa, value(there), value(here)) && may(40, &aa, value(here), value(here)));
    assert!(may(40, &"fd20::5".parse().unwrap(), value(there), value(at("fd00::1", 17))));
    // Nothing new, nothing away, nowhere else, nothing but the locator.
    assert!(!may(40, &aa, None, value(here)) && !may(40, &aa, value(here), None));
    assert!(!may(40, &aa, value(here), value(there)), "not away from itself");
    assert!(!may(40, &aa, value(there), value(at("edge:02:00:00:00:00:09/1", 17))));
    for changed in [
        Mapping { owner: PrincipalId(18), ..here },
        Mapping { service: ServiceId(3), ..here },
        Mapping { group: GroupId(2), ..here },
        Mapping { mac: None, ..here },
        Mapping { lease_ms: 1, ..here },
    ] {
        assert!(!may(40, &aa, value(there), value(changed)), "{changed:?}");
    }
    // No tenant's addresses, no groups.
    assert!(!may(40, &"tenant:5/0/10.0.0.7".parse().unwrap(), value(there), value(here)));
    assert!(!may(40, &"group:1".parse().unwrap(), value(there), value(here)));
    let group = |address: &str| Some(Value::Group([address.parse().unwrap()].into()));
    assert!(!may(40, &"group:1".parse().unwrap(), group("10.9.0.1"), group("10.1.1.1")));
    // Without locators nothing at all.
    assert!(!may(41, &aa, value(there), value(here)) && !may(99, &aa, value(there), value(here)));
    // What may be refused at once is: and no more than that.
    let ever = |who, key: &str| policy.may_ever_update(PrincipalId(who), &key.parse().unwrap());
    assert!(ever(40, "20.0.0.5") && ever(40, "fd20::5") && ever(17, "20.0.0.5"));
    assert!(
        !ever(40, "group:1")
            && !ever(40, "tenant:5/0/10.0.0.7")
            && !ever(41, "20.0.0.5")
            && !ever(18, "20.0.0.5")
            && !ever(99, "20.0.0.5")
    );
    assert!(policy.resolves_addresses(PrincipalId(40)) && !policy.resolves_addresses(PrincipalId(41)));
    assert!(!policy.resolves_all(PrincipalId(40)) && !policy.may_list(PrincipalId(40)));
}

#[test]
fn a_host_brings_its_own_addresses_to_itself() {
    let policy = Policy::parse(MOVERS).unwrap();
    let aa = "20.0.0.5".parse().unwrap();
    let may = |who, old: Mapping, new: Mapping| {
        policy.may_update(PrincipalId(who), &aa, Some(&Value::Mapping(old)), Some(&Value::Mapping(new)))
    };
    assert!(may(17, at("10.1.2.9", 17), at("10.1.1.9", 17)));
    assert!(!may(17, at("10.1.2.9", 18), at("10.1.1.9", 18)), "another's");
    assert!(!may(17, at("10.1.2.9", 18), at("10.1.1.9", 17)), "it takes no ownership");
    assert!(!may(17, at("10.1.2.9", 0), at("10.1.1.9", 0)), "nobody's");
    assert!(!may(17, at("10.1.2.9", 17), at("10.1.1.1", 17)), "not its locator");
    assert!(!may(18, at("10.1.2.9", 18), at("10.1.1.9", 18)), "it has none");
    assert!(!policy.resolves_addresses(PrincipalId(17)));
}

#[test]
fn contradictions_are_refused_with_a_remedy() {
    let service = |lines: &str| format!("version = 1\n[[service]]\nname = \"a\"\nid = 1\n{lines}");
    let cases = [
        ("version = 0".to_owned(), "version is 0"),
        ("version = 1\nvesrion = 2".to_owned(), "vesrion"),
        ("version = -1".to_owned(), "cannot be read"),
        ("".to_owned(), "version"),
        (service("alow = []"), "alow"),
        (service("[[service]]\nname = \"a\"\nid = 2"), "`a` is there twice"),
        (service("[[service]]\nname = \"b\"\nid = 1"), "`a` and `b` both have id 1"),
        (service("[[service]]\nname = \"b\"\nid = 0"), "id 0"),
        (service("[[service]]\nname = \"*\"\nid = 3"), "name `*`"),
        (service("allow = [\"x\"]"), "names service `x`"),
        (service("deny = [\"*\"]"), "names service `*`"),
        (service("deny = [\"a\"]"), "denies itself"),
        (service("allow = [\"b\"]\ndeny = [\"b\"]\n[[service]]\nname = \"b\"\nid = 2"), "both allows and denies `b`"),
        (service("[[principal]]\nid = 0\nrole = \"host\""), "id 0"),
        (service("[[principal]]\nid = 4\nrole = \"king\""), "king"),
        (service("[[principal]]\nid = 4\nrole = \"host\"\n[[principal]]\nid = 4\nrole = \"host\""), "principal 4 is there twice"),
        (service("[[principal]]\nid = 4\nrole = \"host\"\nservices = [\"a\"]"), "no provisioner"),
        (service("[[principal]]\nid = 4\nrole = \"provisioner\"\nservices = [\"b\"]"), "principal 4 names service `b`"),
        (service("[[principal]]\nid = 4\nrole = \"admin\"\nlocators = [\"10.1.1.1\"]"), "neither switch nor host"),
        (service("[[principal]]\nid = 4\nrole = \"switch\"\nlocators = []"), "principal 4 has an empty list"),
        (service("[[principal]]\nid = 4\nrole = \"switch\"\nlocators = [\"tor\"]"), "principal 4: `tor` is not a locator"),
    ];
    for (text, expected) in cases {
        let error = Policy::parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}

#[test]
fn many_services_fill_several_words() {
    let mut text = "version = 1\n".to_owned();
    for id in 1..=200 {
        let allow = if id > 1 { format!("allow = [\"s{}\"]", id - 1) } else { String::new() };
        text += &format!("[[service]]\nname = \"s{id}\"\nid = {}\n{allow}\n", id * 3);
    }
    let policy = Policy::parse(&text).unwrap();
    for asker in 1..=200u32 {
        for target in 1..=200u32 {
            let expected = asker == target || asker + 1 == target;
            assert_eq!(policy.may_resolve(ServiceId(asker * 3), ServiceId(target * 3)), expected, "{asker} {target}");
        }
    }
}

#[test]
fn withdrawals_between_versions_are_seen() {
    let old = Policy::parse(POLICY).unwrap();
    let parse = |from: &str, to: &str| Policy::parse(&POLICY.replace(from, to)).unwrap();
    assert!(!parse("version = 3", "version = 4").withdraws_from(&old));
    assert!(!parse("deny = [\"batch\"]", "").withdraws_from(&old), "more is allowed");
    assert!(parse("allow = [\"web\"]", "").withdraws_from(&old));
    assert!(parse("role = \"admin\"", "role = \"host\"").withdraws_from(&old));
    let with =
        |locators: &str| Policy::parse(&POLICY.replace("role = \"switch\"", &format!("role = \"switch\"\n{locators}"))).unwrap();
    assert!(old.withdraws_from(&with("locators = [\"10.1.1.1\"]")), "it resolves addresses no more");
    assert!(!with("locators = [\"10.1.1.1\"]").withdraws_from(&old));
    assert!(old.withdraws_from(&Policy::open([])) && !Policy::open([]).withdraws_from(&old));
}

#[test]
fn an_open_policy_lets_all_resolve_and_few_write() {
    let policy = Policy::open([(PrincipalId(1), Role::Provisioner)]);
    let key = Key::Group(GroupId(1));
    assert!(policy.may_resolve(ServiceId(0), ServiceId(5)) && policy.resolves_all(PrincipalId(9)));
    assert!(policy.may_update(PrincipalId(1), &key, None, None) && !policy.may_update(PrincipalId(9), &key, None, None));
    assert!(!policy.is_server(PrincipalId(9)));
}
