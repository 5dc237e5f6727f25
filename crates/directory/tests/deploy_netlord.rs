//! `weft deploy` with NetLord: what is planned of tenants, and inventories that are refused. `crates/agent/tests/deploy_netlord.rs` runs the plan.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::fs;

use serde_json::Value;
use support::site::{Site, assert_code, assert_refused, text};

const EXAMPLE: &str = include_str!("../../../examples/inventory-netlord.toml");
const VL2: &str = include_str!("../../../examples/inventory.toml");

#[test]
fn a_second_plan_writes_nothing_and_changed_tenants_need_a_version() {
    for (from, to) in [("addresses = [\"10.0.0.3\"]", "addresses = [\"10.0.0.4\"]"), ("port = 22", "port = 23")] {
        let site = Site::new();
        assert_code(&site.plan(EXAMPLE, &[]), 0);
        let before = site.snapshot();
        assert_code(&site.plan(EXAMPLE, &[]), 0);
        assert_eq!(site.snapshot(), before);
        assert_code(&site.check_folder(EXAMPLE), 0);
        assert!(EXAMPLE.contains(from), "{from}");
        let changed = EXAMPLE.replace(from, to);
        let output = site.plan(&changed, &[]);
        let printed = text(&output);
        let what = "toml:3: tenants have changed, and version 1 is not greater than 1";
        assert!(output.status.code() == Some(2) && printed.contains(what) && printed.contains("version = 2"), "{printed}");
        assert_eq!(site.snapshot(), before, "nothing is written");
        assert_code(&site.plan(&changed.replace("version = 1 ", "version = 2 "), &[]), 0);
    }
}

#[test]
fn placed_vifs_have_bindings_where_the_directory_is_asked() {
    let site = Site::new();
    let netlord = "[[service]]\nname = \"tenants\"\nid = 7\n\n[netlord]\nlocations = \"directory\"\nservice = \"tenants\"";
    assert_code(&site.plan(&EXAMPLE.replacen("[netlord]", netlord, 1), &[]), 0);
    let read = |path: &str| fs::read_to_string(site.out().join(path)).unwrap();
    let lines: Vec<Value> = read("directory/mappings.jsonl").lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(lines[0]["entries"], lines.len() - 1);
    let web2 = lines.iter().find(|it| it["key"] == "tenant:17/1/10.0.0.2").unwrap();
    let expected = serde_json::json!({
        "key": "tenant:17/1/10.0.0.2", "locator": "edge:02:4e:4c:00:00:02/1", "service": 7, "owner": 203, "mac": "02:00:00:00:00:02",
    });
    assert_eq!(*web2, expected);
    // Of each VIF one for the MAC address, and one for its address.
    assert_eq!(lines.iter().filter(|it| it["key"].as_str().is_some_and(|key| key.starts_with("tenant:"))).count(), 10);
    assert!(read("directory/tenants.toml").contains("service = 7\n"));
    assert!(read("hosts/h0/etc/weft/agent.toml").contains("locations = \"directory\"\n"));
}

#[test]
fn without_a_directory_servers_have_the_tenants_and_nobody_has_keys() {
    let (start, rest) = EXAMPLE.split_once("[[directory.server]]").unwrap();
    let inventory = format!("{start}[netlord]{}", rest.split_once("[netlord]").unwrap().1);
    let site = Site::new();
    assert_code(&site.plan(&inventory, &[]), 0);
    assert!(!site.out().join("directory").exists());
    let files = site.snapshot();
    assert!(files.keys().all(|it| it.extension().is_none_or(|it| it != "key" && it != "pem")), "{:?}", files.keys());
    let tenants = fs::read_to_string(site.out().join("hosts/h1/etc/weft/tenants.toml")).unwrap();
    assert!(tenants.contains("name = \"globex\"") && tenants.contains("port = 22"));
    assert_code(&site.plan(&inventory, &[]), 0);
    assert_eq!(site.snapshot(), files);
    assert_code(&site.check_folder(&inventory), 0);
    // With a directory from now on: the same folder gets keys.
    let with_directory = EXAMPLE.replace("version = 1 ", "version = 2 ");
    assert_code(&site.plan(&with_directory, &[]), 0);
    assert!(site.out().join("directory/secret").exists() && !site.out().join("hosts/h1/etc/weft/tenants.toml").exists());
    assert_code(&site.check_folder(&with_directory), 0);
    // Keys are not removed, as they cannot be made again.
    let before = site.snapshot();
    let output = site.plan(&inventory.replace("version = 1 ", "version = 3 "), &[]);
    let printed = text(&output);
    assert!(
        output.status.code() == Some(2) && printed.contains("has the keys of a directory") && printed.contains("new folder"),
        "{printed}"
    );
    assert_eq!(site.snapshot(), before);
}

/// Both overlays, with one directory.
fn mixed() -> String {
    let netlord = EXAMPLE.split_once("[netlord]").unwrap().1;
    format!("{VL2}\n[netlord]{netlord}")
}

#[test]
fn one_inventory_has_machines_of_both_overlays() {
    let site = Site::new();
    assert_code(&site.plan(&mixed(), &[]), 0);
    let read = |path: &str| fs::read_to_string(site.out().join(path)).unwrap();
    assert!(read("hosts/web1/etc/weft/agent.toml").contains("entropy = "));
    // One directory, in which ToRs authenticate by keyed MACs.
    assert!(read("hosts/h0/etc/weft/agent.toml").contains("[repository]\nauth = \"mac\"\n"));
    assert_code(&site.check_folder(&mixed()), 0);
}

#[test]
fn machines_of_one_overlay_cannot_be_part_of_the_other() {
    let line = |text: &str| mixed().lines().position(|it| it == text).unwrap() as u32 + 1;
    let (h0, port) = (line("name = \"h0\""), line("uplinks = [{ device = \"eth0\", port = \"edge0:p0\", number = 1 }]"));
    let vif = line("host = \"h0\"");
    let twice = "web1 is in [[host]] (line 55) too: a machine runs the agent of one overlay";
    let cases = [
        ("name = \"h0\"", "name = \"web1\"", h0, twice, "different names"),
        ("\"edge0:p0\"", "\"tor1:p0\"", port, "switch tor1 is VL2's, which routes", "one of [[netlord.switch]]: edge0, edge1"),
        ("host = \"h0\"", "host = \"web1\"", vif, "host web1 is VL2's, which has no tenants", "[[netlord.host]]"),
    ];
    assert_refused(&Site::new(), &mixed(), &cases);
}

#[test]
fn tenants_that_contradict_each_other_are_refused() {
    let cases = [
        (
            "tenant = \"acme\"\nname = \"web2\"",
            "tenant = \"acne\"\nname = \"web2\"",
            81,
            "there is no tenant `acne`",
            "name one of: acme, globex",
        ),
        ("host = \"h2\"", "host = \"h9\"", 85, "there is no host `h9`", "add [[netlord.host]] of that name"),
        (
            "mac = \"02:00:00:00:00:02\"",
            "mac = \"02:00:00:00:00:01\"",
            83,
            "MAC address 02:00:00:00:00:01 is that of vif `web1` of `acme` (line 74) too in MAC space 1",
            "its own",
        ),
        (
            "addresses = [\"10.0.0.2\"]",
            "addresses = [\"10.0.0.2\", \"10.0.0.1\"]",
            84,
            "address 10.0.0.1 is that of vif `web1` of `acme` (line 74) too in MAC space 1",
            "its own",
        ),
        (
            "mac = \"02:00:00:00:00:02\"",
            "mac = \"03:00:00:00:00:02\"",
            83,
            "is not the address of one interface",
            "docs/tenants.md",
        ),
        ("name = \"globex\"", "name = \"acme\"", 67, "tenant `acme`: the name is tenant 17's already", "its own"),
        ("id = 18", "id = 2", 67, "id 2 is reserved", "docs/tenants.md"),
        ("space = 2\nmac", "space = 3\nmac", 105, "`globex` has no MAC space 3", "docs/tenants.md"),
        ("10.0.1.254/24", "10.0.0.253/24", 115, "subnets 10.0.0.0/24 and 10.0.0.0/24 overlap", "docs/tenants.md"),
        ("action = \"deny\"", "action = \"drop\"", 124, "action `drop`", "docs/tenants.md"),
        ("router = \"core\"", "router = \"cor\"", 123, "`globex` has no virtual router `cor`", "docs/tenants.md"),
        ("port = 22", "port = \"ssh\"", 124, "port `ssh`: write 0 to 65535", "docs/tenants.md"),
    ];
    assert_refused(&Site::new(), EXAMPLE, &cases);
}

#[test]
fn limits_that_let_nothing_pass_are_refused() {
    let cases = [
        ("rate = \"50Mbps\"", "rate = \"0bps\"", 64, "the rate of tenant acme is less than a byte per second", "deny = true"),
        ("rate = \"50Mbps\"", "rate = \"fast\"", 64, "`fast`", "100Mbps"),
        (
            "rate = \"50Mbps\"",
            "rate = \"5Mbps\"\ndeny = true",
            64,
            "tenant acme may send nothing, and has a rate",
            "remove `deny`",
        ),
        ("rate = \"50Mbps\"", "burst = \"100kB\"", 64, "has a burst and no rate", "add `rate`"),
        ("rate = \"50Mbps\"", "rate = \"5Mbps\"\nburst = \"0B\"", 65, "a burst of 0", "leave `burst` out"),
        ("broadcast_rate = 500", "broadcast_rate = 0", 59, "`broadcast_rate`: 0 is not 1 to", "leave it out"),
        ("broadcast_rate = 500", "agent_burst = 31", 59, "`agent_burst`: 31 is not 32 to", "leave it out"),
        ("broadcast_rate = 500", "broadcast_rate = \"many\"", 59, "`many` is no whole number", "100"),
        ("broadcast_rate = 500", "peers = 5", 59, "there is no limit `peers`", "one of: agent_burst"),
        ("[netlord] ", "[netlord]\nlimits = { icmp_rate = -1 }", 11, "-1 is not 1 to", "leave it out"),
    ];
    assert_refused(&Site::new(), EXAMPLE, &cases);
}

#[test]
fn servers_without_a_place_in_the_fabric_are_refused() {
    let uplink = "uplinks = [{ device = \"eth0\", port = \"edge0:p0\", number = 1 }]\n";
    let cases = [
        (uplink, "", 43, "host h0 is connected to no switch", "add uplinks"),
        ("\"edge0:p0\"", "\"edge9:p0\"", 45, "there is no switch `edge9`", "name one of: edge0, edge1, core0, core1"),
        ("\"edge0:p0\"", "\"core0:p9\"", 45, "core0 is a core switch", "name an edge switch"),
        ("\"edge0:p0\"", "\"edge0\"", 45, "no interface of a switch", "edge1:swp1"),
        ("\"edge0:p1\"", "\"edge0:p0\"", 51, "the port edge0:p0 of eth0 of h1 is that of eth0 of h0 (line 45) too", "its own"),
        ("number = 2", "number = 1", 51, "the number 1 at edge0 of h1 is that of h0 (line 45) too", "its own"),
        ("number = 2", "number = 127", 51, "port number 127 is not 1 to 126", "outer address"),
        ("principal = 202\n", "", 49, "host h1 has no principal", "add `principal`"),
        ("principal = 202", "principal = 201", 50, "principal 201 of h1 is that of h0 (line 44)", "its own"),
        ("\"10.1.0.2/16\"", "\"10.1.0.1/16\"", 52, "the address 10.1.0.1 of h1 is that of h0 (line 46) too", "its own"),
        ("\"10.1.0.2/16\"", "\"10.1.0.2\"", 52, "is not an IPv4 address of a host with its prefix", "dhcp"),
        (
            "device = \"tap1\"",
            "device = \"tap0\"",
            102,
            "the interface tap0 of h0 of VIF app of globex is that of VIF web1 of acme (line 78)",
            "its own",
        ),
        ("device = \"tap0\"", "device = \"eth0\"", 78, "eth0 of h0 is no interface of a VM", "leads to the VM"),
        ("host = \"h0\"\n", "", 77, "VIF web1 of acme has an interface and no host", "add `host`"),
        (
            "readers = [\"h0\", \"h2\"]",
            "readers = [\"h0\"]",
            110,
            "is on h2, which may not read its tenant",
            "`readers` of globex",
        ),
        ("readers = [\"h0\", \"h2\"]", "readers = [\"h7\"]", 70, "there is no host `h7`", "[[netlord.host]]"),
        ("[netlord] ", "[netlord]\nlocations = \"directory\"", 11, "bindings of no service", "[[service]]"),
        ("[netlord] ", "[netlord]\nservice = \"x\"", 11, "there is no service `x`", "[[service]]"),
    ];
    assert_refused(&Site::new(), EXAMPLE, &cases);
    let no_servers = EXAMPLE.replace("[[netlord.host]]", "[[netlord.hosts]]");
    let output = Site::new().plan(&no_servers, &[]);
    assert!(output.status.code() == Some(2) && text(&output).contains("unknown field `hosts`"), "{}", text(&output));
}

#[test]
fn switches_that_do_not_form_a_fabric_are_refused() {
    let cables = EXAMPLE[EXAMPLE.find("[[netlord.cable]]").unwrap()..EXAMPLE.find("[[netlord.host]]").unwrap()].to_owned();
    let edges = EXAMPLE.replace("role = \"edge\" ", "role = \"core\" ").replace("role = \"edge\"\n", "role = \"core\"\n");
    let cases = [
        (cables.as_str(), "", 23, "switch core0 has no cable", "[[netlord.cable]]"),
        ("\"core1:p1\"]", "\"core1:p1\", \"core0:p7\"]", 40, "a cable has two ends", "uplinks"),
        ("\"core1:p1\"", "\"edge1:u7\"", 40, "both ends are at edge1", "the other end"),
        ("\"core1:p1\"", "\"core1:p0\"", 40, "the port core1:p0 of the cable edge1:u1 to core1:p0 is that of", "its own"),
        ("mac = \"02:4e:4c:00:00:02\"", "mac = \"02:4e:4c:00:00:01\"", 20, "is that of switch edge0 (line 15) too", "its own"),
        ("mac = \"02:4e:4c:00:00:02\"", "mac = \"01:00:5e:00:00:01\"", 20, "not the MAC address of one switch", "02:4e"),
        ("mac = \"02:4e:4c:00:00:02\"\n", "", 18, "edge switch edge1 has no MAC address", "02:4e:4c"),
        (
            "role = \"core\"",
            "role = \"core\"\nmac = \"02:00:00:00:00:01\"",
            25,
            "core switch core0 is sent nothing to",
            "role = \"edge\"",
        ),
        ("role = \"core\"", "role = \"core\"\nfib_entries = 0", 25, "0 is not 1 to 65536", "leave it out"),
        (
            "role = \"core\"",
            "role = \"core\"\nuntagged = [\"p0\"]",
            32,
            "is that of `untagged` of core0 (line 25) too",
            "its own",
        ),
        ("[netlord] ", "[netlord]\npaths = 0", 11, "1 path or more", "leave `paths` out"),
        ("[netlord] ", "[netlord]\ntrees = 17", 11, "not 17", "leave `trees` out"),
        (
            "[[netlord.cable]]\nends = [\"edge1:u0\", \"core0:p1\"]\n\n[[netlord.cable]]\nends = [\"edge1:u1\", \"core1:p1\"]\n",
            "",
            50,
            "cannot reach",
            "between the parts",
        ),
    ];
    assert_refused(&Site::new(), EXAMPLE, &cases);
    let output = Site::new().plan(&edges, &[]);
    let printed = text(&output);
    assert!(output.status.code() == Some(2) && printed.contains("role = \"edge\""), "{printed}");
}
