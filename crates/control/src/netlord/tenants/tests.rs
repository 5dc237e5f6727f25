use std::net::Ipv4Addr;

use super::super::PUBLIC;
use super::*;
use crate::wire::netlord::{IpPacket, Ports};

const FILE: &str = r#"
# Ours.
version = 4 # counted by hand
service = 1
[[vif]]
tenant = "acme"
name = "web1"
space = 1
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1", "fd00::1"]
[[vif]]
tenant = "acme"
name = "web1-public"
space = "public"
mac = "02:00:00:00:00:01"
addresses = ["203.0.113.7"]
[[vif]]
tenant = "globex"
name = "web1"
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1"]
[[tenant]]
id = 17
name = "acme"
spaces = [1, 2]
[[tenant]]
id = 16777215
name = "globex"
[[router]]
tenant = "acme"
name = "core"
interfaces = [
  { space = 1, mac = "02:00:00:00:00:fe", address = "10.0.0.254/24" },
  { space = 2, mac = "02:00:00:00:00:fe", address = "10.0.1.254/24" },
  { space = 2, mac = "02:00:00:00:00:fe", address = "fd01::ff/64" },
]
[[router]]
tenant = "acme"
name = "far"
interfaces = [
  { space = 2, mac = "02:00:00:00:00:fd", address = "10.0.1.253/24" },
  { space = 1, mac = "02:00:00:00:00:fc", address = "10.0.2.254/24" },
]
[[route]]
tenant = "acme"
router = "core"
to = "192.168.0.0/16"
via = "10.0.0.1"
[[route]]
tenant = "acme"
router = "core"
to = "10.0.2.0/24"
via = "10.0.1.253"
[[route]]
tenant = "acme"
router = "far"
to = "10.0.0.0/24"
via = "10.0.1.254"
[[rule]]
tenant = "acme"
router = "core"
action = "deny"
protocol = "tcp"
from = "10.0.0.0/24"
to = "10.0.1.0/24"
port = "22-23"
"#;

fn packet(src: [u8; 4], dst: [u8; 4], protocol: u8, ports: Ports) -> IpPacket<'static> {
    IpPacket { src: src.into(), dst: dst.into(), protocol, ports, fragment: None, ttl: 64, payload: &[] }
}

#[test]
fn a_file_is_read_and_packets_find_their_way() {
    let all = Tenants::parse(FILE).unwrap();
    let acme = all.by_name("acme").unwrap();
    assert_eq!((all.version, all.service, acme.id), (4, ServiceId(1), TenantId(17)));
    assert_eq!(acme.vifs[1].vif.tenant, PUBLIC);
    assert_eq!(all.vifs().count(), 3);
    let fe: MacAddr = "02:00:00:00:00:fe".parse().unwrap();
    let fc: MacAddr = "02:00:00:00:00:fc".parse().unwrap();
    let core = acme.router_at(MacSpace(1), fe).unwrap();
    assert_eq!(acme.router_at(MacSpace(1), MacAddr([2, 0, 0, 0, 0, 0xfd])), None, "it is in space 2");
    assert_eq!(acme.gateway(MacSpace(2), IpAddr::from([10, 0, 1, 254])), Some(fe));
    assert_eq!(acme.gateway(MacSpace(1), IpAddr::from([10, 0, 1, 254])), None);
    let path = |dst: [u8; 4], ports| acme.route(core, &packet([10, 0, 0, 1], dst, 6, ports));
    let web = Ports::Known(999, 80);
    let hop = |space, to: [u8; 4], from| Ok(NextHop { space: MacSpace(space), to: to.into(), from });
    assert_eq!(path([10, 0, 1, 7], web), hop(2, [10, 0, 1, 7], fe));
    assert_eq!(path([192, 168, 3, 3], web), hop(1, [10, 0, 0, 1], fe));
    assert_eq!(path([10, 0, 2, 9], web), hop(1, [10, 0, 2, 9], fc), "over two routers in one step");
    assert_eq!(path([172, 16, 0, 1], web), Err(RouteError::NoRoute));
    assert_eq!(path([10, 0, 1, 7], Ports::Known(999, 22)), Err(RouteError::Denied));
    assert_eq!(path([10, 0, 1, 7], Ports::Hidden), Err(RouteError::Denied));
    assert_eq!(path([10, 0, 0, 7], Ports::Known(999, 22)), hop(1, [10, 0, 0, 7], fe));
}

#[test]
fn a_long_file_is_read_in_pieces_as_a_whole_one_is() {
    let whole = check::build(toml::from_str(FILE).unwrap()).unwrap();
    for piece in [1, 300, 700, FILE.len() - 1] {
        assert_eq!(check::build(read(FILE, piece).unwrap()).unwrap(), whole, "{piece}");
    }
    // What cannot be divided is read as a whole, and an error names the line of the whole.
    let odd = FILE.replace("name = \"acme\"", "name = \"\"\"\n[[tenant]]\"\"\"");
    assert!(check::build(read(&odd, 1).unwrap()).unwrap_err().to_string().contains("a name has 1 to 64"));
    let wrong = FILE.replace("action = \"deny\"", "action = deny");
    let line = wrong.lines().position(|line| line == "action = deny").unwrap() + 1;
    let said = read(&wrong, 1).unwrap_err().to_string();
    assert!(said.contains(&format!("line {line}")), "{said}");
}

#[test]
fn what_is_wrong_is_named() {
    let change = |from: &str, to: &str| {
        assert!(FILE.contains(from), "{from}");
        Tenants::parse(&FILE.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let add = |text: &str| Tenants::parse(&format!("{FILE}\n{text}\n")).unwrap_err().to_string();
    let vif = |rest: &str| add(&format!("[[vif]]\ntenant = \"acme\"\nname = \"x\"\n{rest}"));
    for (error, said) in [
        (change("id = 17\n", "id = 16777216\n"), "tenant `acme`: id 16777216 has more than 24 bits"),
        (change("id = 17\n", "id = -1\n"), "more than 24 bits"),
        (change("id = 17\n", "id = 2\n"), "id 2 is reserved"),
        (change("id = 17\n", "id = 16777215\n"), "tenant `globex`: id 16777215 is `acme`'s already"),
        (change("name = \"globex\"", "name = \"acme\""), "the name is tenant 17's already"),
        (change("spaces = [1, 2]", "spaces = [1, 2130706432]"), "MAC space 2130706432 is not 1 to 2130706431"),
        (change("spaces = [1, 2]", "spaces = [1, 2, 1]"), "MAC space 1 is there twice"),
        (change("version = 4", "version = 0"), "version: 0 is not 1 to"),
        (change("version = 4", "versoin = 4"), "versoin"),
        (vif("space = 1\nmac = \"02:00:00:00:00:01\""), "02:00:00:00:00:01 is vif `web1` of `acme`'s already in MAC space 1"),
        (vif("space = 1\nmac = \"02:00:00:00:00:fe\""), "is router `core` of `acme`'s already"),
        (vif("space = 1\nmac = \"02:00:00:00:00:09\"\naddresses = [\"10.0.0.254\"]"), "10.0.0.254 is router `core`"),
        (
            vif("space = \"public\"\nmac = \"02:00:00:00:00:09\"\naddresses = [\"203.0.113.7\"]"),
            "203.0.113.7 is vif `web1-public`",
        ),
        (vif("space = \"public\"\nmac = \"02:00:00:00:00:09\""), "needs an address"),
        (vif("mac = \"02:00:00:00:00:09\""), "several MAC spaces"),
        (vif("space = 3\nmac = \"02:00:00:00:00:09\""), "`acme` has no MAC space 3"),
        (vif("space = 1\nmac = \"03:00:00:00:00:09\""), "not the address of one interface"),
        (vif("space = 1\nmac = \"02:00:00:00:00:09\"\naddresses = [\"224.0.0.1\"]"), "224.0.0.1 is not the address"),
        (change("address = \"10.0.1.254/24\"", "address = \"10.0.0.253/25\""), "overlap"),
        (change("address = \"10.0.1.254/24\"", "address = \"10.0.1.254\""), "with its prefix length"),
        (change("via = \"10.0.0.1\"", "via = \"10.7.0.1\""), "10.7.0.1 lies in no subnet"),
        (change("via = \"10.0.0.1\"", "via = \"10.0.0.254\""), "is the router itself"),
        (change("to = \"192.168.0.0/16\"", "to = \"192.168.0.1/16\""), "has bits after the prefix"),
        (change("tenant = \"globex\"", "tenant = \"initech\""), "vif `web1` of `initech`: there is no tenant `initech`"),
        (change("action = \"deny\"", "action = \"forbid\""), "action `forbid`"),
        (change("protocol = \"tcp\"\n", ""), "a port needs protocol"),
        (change("\"22-23\"", "70000"), "port `70000`"),
    ] {
        assert!(error.contains(said), "`{error}` does not say `{said}`");
    }
}

#[test]
fn routes_that_loop_are_found() {
    let route = |router: &str, to: &str, via: &str| {
        format!("[[route]]\ntenant = \"acme\"\nrouter = \"{router}\"\nto = \"{to}\"\nvia = \"{via}\"\n")
    };
    let looping = format!("{FILE}{}{}", route("core", "172.16.0.0/12", "10.0.1.253"), route("far", "0.0.0.0/0", "10.0.1.254"));
    let error = Tenants::parse(&looping).unwrap_err().to_string();
    assert!(error.contains("172.16.0.0") && error.contains("`core` -> `far` -> `core`"), "{error}");
    // A longer prefix at the other end breaks the loop for all of it.
    let halves = route("far", "172.16.0.0/13", "10.0.2.1") + &route("far", "172.24.0.0/13", "10.0.2.1");
    Tenants::parse(&format!("{looping}{halves}")).unwrap();
    let half = Tenants::parse(&format!("{looping}{}", route("far", "172.16.0.0/13", "10.0.2.1"))).unwrap_err().to_string();
    assert!(half.contains("172.24.0.0"), "{half}");
}

#[test]
fn what_is_appended_is_read_and_the_rest_stays() {
    let mut text = append_tenant("", &NewTenant { id: 17, name: "acme", spaces: &[], readers: None });
    assert_eq!(text, "version = 1\n\n[[tenant]]\nid = 17\nname = \"acme\"\n");
    text = append_tenant(&format!("# mine\n{text}"), &NewTenant { id: 18, name: "globex", spaces: &[1, 2], readers: None });
    let vif =
        NewVif { tenant: "acme", name: "a", space: None, mac: "02:00:00:00:00:01".into(), addresses: vec!["10.0.0.1".into()] };
    text = append_vif(&text, &vif);
    text = append_vif(&text, &NewVif { name: "b", space: Some("public"), ..vif.clone() });
    let interfaces = vec![(1, "02:00:00:00:00:fe".to_owned(), "10.0.0.254/24".to_owned())];
    text = append_router(&text, &NewRouter { tenant: "acme", name: "core", interfaces });
    text = append_route(&text, &NewRoute { tenant: "acme", router: "core", to: "0.0.0.0/0", via: "10.0.0.1" });
    let keys = vec![("action", "deny".to_owned()), ("protocol", "udp".to_owned()), ("port", "53".to_owned())];
    text = append_rule(&text, &NewRule { tenant: "acme", router: "core", keys });
    let all = Tenants::parse(&text).unwrap();
    assert!(text.starts_with("# mine\nversion = 7\n"), "{text}");
    let acme = all.by_name("acme").unwrap();
    assert_eq!((acme.vifs.len(), acme.routers[0].routes.len(), acme.routers[0].rules.len()), (2, 1, 1));
    // A name cannot break out of its string.
    let evil = append_tenant("version = 1\n", &NewTenant { id: 19, name: "x\"\nid = 3", spaces: &[], readers: None });
    assert!(Tenants::parse(&evil).unwrap_err().to_string().contains("a name has"), "{evil}");
}

#[test]
fn what_is_taken_out_is_gone_and_the_rest_stays() {
    let text =
        format!("{FILE}# the last rule\n[[rule]] # of far\ntenant = \"acme\"\nrouter = \"far\"\naction = \"allow\"\n# end\n");
    let out = without(&text, |table| table == Table::Vif("globex", "web1"));
    let all = Tenants::parse(&out).unwrap();
    assert_eq!((all.version, all.vifs().count(), all.by_name("globex").unwrap().vifs.len()), (5, 2, 0));
    assert!(
        out.starts_with("\n# Ours.\nversion = 5 # counted by hand") && out.contains("# the last rule\n[[rule]] # of far"),
        "{out}"
    );
    let to = "10.0.2.0/24".parse().ok();
    let out = without(&text, |table| table == Table::Route("acme", "core", to));
    assert_eq!(Tenants::parse(&out).unwrap().by_name("acme").unwrap().routers[0].routes.len(), 1);
    let mut rules = 0;
    let second = |table: Table<'_>| {
        rules += usize::from(matches!(table, Table::Rule(..)));
        matches!(table, Table::Rule(..)) && rules == 2
    };
    let out = without(&text, second);
    let acme = Tenants::parse(&out).unwrap().by_name("acme").unwrap().clone();
    assert_eq!((acme.routers[0].rules.len(), acme.routers[1].rules.len()), (1, 0));
    assert!(out.contains("# the last rule\n# end\n"), "{out}");
    let out = without(&text, |table| table.tenant() == "acme");
    assert_eq!(Tenants::parse(&out).unwrap().tenants.len(), 1);
    let out = with_readers(&text, "acme", Some(&[41, 40]));
    let readers = |text: &str| Tenants::parse(text).unwrap().by_name("acme").unwrap().readers.clone();
    assert_eq!(readers(&out), Some(vec![PrincipalId(40), PrincipalId(41)]));
    assert_eq!(readers(&with_readers(&out, "acme", Some(&[]))), Some(Vec::new()));
    assert_eq!(readers(&with_readers(&out, "acme", None)), None);
}

#[test]
fn prefixes() {
    for text in ["0.0.0.0/0", "10.0.0.0/8", "10.1.2.3/32", "::/0", "fd00::/64", "::1/128"] {
        assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
    }
    for text in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0", "fd00::/129", "x/8"] {
        assert!(text.parse::<Prefix>().is_err(), "{text}");
    }
    let ten: Prefix = "10.0.0.0/8".parse().unwrap();
    assert!(ten.contains(Ipv4Addr::new(10, 255, 0, 1).into()) && !ten.contains("::a00:1".parse().unwrap()));
    assert_eq!(ten.behind(), Some(IpAddr::from([11, 0, 0, 0])));
    assert_eq!("0.0.0.0/0".parse::<Prefix>().unwrap().behind(), None);
    assert_eq!("255.255.255.255/32".parse::<Prefix>().unwrap().behind(), None);
}
