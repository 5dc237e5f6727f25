//! What `weft-agent --check` says to NetLord's configurations: file, line and remedy, and exit code 2.

#[path = "support/ebpf.rs"]
mod ebpf;

use std::process::Command;

const HOST: &str = r#"overlay = "netlord"
role = "host"
tenants = "/etc/weft/tenants.toml"
special_vlan = 4094
[[uplink]]
device = "eth0"
[[vif]]
device = "tap0"
tenant = "acme"
name = "web1"
[[path]]
switch = "02:4e:4c:00:00:02"
vlans = "1-16"
"#;

const EDGE: &str = r#"overlay = "netlord"
role = "edge"
mac = "02:4e:4c:00:00:01"
fib_entries = 1024
[[port]]
device = "swp7"
number = 7
vlans = "1-16,4094"
[[port]]
device = "swp49"
vlans = "1,3,4094"
[[limit]]
tenant = 17
rate = "100Mbps"
"#;

const DIRECTORY: &str = r#"[directory]
servers = ["10.1.0.7:5303"]
principal = 40
key = "/etc/weft/agent.key"
[[path]]"#;

/// Exit code and what is said.
fn check(text: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weft-agent")).arg("--config").arg(&file).arg("--check").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), said)
}

/// With one piece in place of another it is refused, and says this.
fn refused(right: &str, from: &str, to: &str, line: usize, says: &str) {
    assert!(right.contains(from), "{from}");
    let (code, said) = check(&right.replace(from, to));
    assert_eq!(code, Some(2), "{to}: {said}");
    assert!(said.contains(says), "{to}: {said}");
    assert!(line == 0 || said.contains(&format!("agent.toml:{line}:")), "{to}: line {line}: {said}");
}

/// In all else they are right.
#[test]
fn what_this_machine_has_not_is_named_with_its_line() {
    let with = |part: &str| HOST.replace("[[path]]", &format!("[provider]\n{part}\n[[path]]"));
    let pulls = HOST.replace("[[path]]", DIRECTORY).replace("special_vlan", "locations = \"directory\"\nspecial_vlan");
    let pushes = HOST.replace("special_vlan", "locations = \"nl-arp\"\nspecial_vlan");
    let named = with("device = \"mgmt\"\naddress = \"10.1.0.7/16\"");
    let two = HOST.replace("special_vlan = 4094", "special_vlan = [4094, 4093]");
    let one = HOST.replace("[[path]]", "[[path]]\nuplink = \"eth0\"");
    let (eth1, eth2) = ("uplink = \"eth0\"\nswitch = \"02:4e:4c:00:00:02\"\nvlans = \"1\"", "uplink = \"eth1\"");
    let several = HOST.replace("[[vif]]", "[[uplink]]\ndevice = \"eth1\"\n[[vif]]");
    let several = several.replace("[[path]]", &format!("[[path]]\n{eth1}\n[[path]]\n{eth2}"));
    for text in [HOST.to_owned(), one, several, two, pulls, pushes, with(""), with("address = \"dhcp\""), named] {
        let says = "cannot read the tenants' file /nowhere/tenants.toml";
        refused(&text, "/etc/weft/tenants.toml", "/nowhere/tenants.toml", 3, says);
    }
    refused(EDGE, "swp7", "nowhere7", 6, "no interface `nowhere7`");
    let core = EDGE.replace("role = \"edge\"\nmac = \"02:4e:4c:00:00:01\"", "role = \"core\"").replace("number = 7\n", "");
    refused(&core, "swp7", "nowhere7", 5, "no interface `nowhere7`");
}

#[test]
fn what_is_wrong_with_a_servers() {
    refused(HOST, "special_vlan = 4094", "special_vlan = 4095", 4, "VLANs are 1 to 4094");
    for wrong in ["[]", "[4094, 4094]", "[1, 0]"] {
        refused(HOST, "special_vlan = 4094", &format!("special_vlan = {wrong}"), 4, "VLANs are 1 to 4094");
    }
    refused(HOST, "vlans = \"1-16\"", "vlans = \"1-0x\"", 13, "is no VLAN");
    refused(HOST, "device = \"eth0\"", "device = \"eth0\"\nswitch = \"02:4e:4c:00:00:01\"", 6, "belong together");
    refused(HOST, "device = \"eth0\"", "device = \"eth0\"\nswitch = \"02:4e:4c:00:00:01\"\nport = 127", 8, "1 to 126");
    refused(HOST, "device = \"eth0\"", "device = \"eth0\"\n[[uplink]]\ndevice = \"eth0\"", 8, "twice");
    refused(HOST, "[[path]]", "[spain]\nperiod = \"0ms\"\n[[path]]", 1, "chirp period is 0");
    refused(HOST, "[[uplink]]\ndevice = \"eth0\"\n", "uplink = []\n", 5, "no interface to the fabric");
    refused(HOST, "tenants =", "tenant =", 0, "tenant");
    for wrong in ["-1", "99999999999", "nan", "99999999999999999999999"] {
        let directory = DIRECTORY.replace("principal = 40", &format!("principal = {wrong}"));
        refused(HOST, "[[path]]", &directory, 13, "expected a whole number from 0 to 4,294,967,295");
    }
    refused(HOST, "[[path]]", &DIRECTORY.replace(":5303", ":99999"), 12, "write such as \"10.0.0.1:5303\"");
    refused(HOST, "device = \"tap0\"", "device = \"eth0\"", 8, "cannot lead to the fabric");
    let twice = "[[vif]]\ndevice = \"tap0\"\ntenant = \"acme\"\nname = \"web2\"\n[[path]]";
    refused(HOST, "[[path]]", twice, 12, "twice");
    refused(
        HOST,
        "[[path]]",
        "[[path]]\nswitch = \"02:4e:4c:00:00:02\"\nvlans = \"17\"\n[[path]]",
        14,
        "two `[[path]]` to 02:4e:4c:00:00:02",
    );
    // Of several interfaces each has its paths.
    let several = HOST.replace("[[vif]]", "[[uplink]]\ndevice = \"eth1\"\n[[vif]]");
    refused(&several, "special", "special", 13, "from which interface do these VLANs lead to 02:4e:4c:00:00:02?");
    let said = several.replace("[[path]]", "[[path]]\nuplink = \"eth1\"");
    refused(&said, "\"eth1\"\nswitch", "\"eth2\"\nswitch", 14, "write one of them: eth0, eth1");
    let path = "[[path]]\nuplink = \"eth1\"\nswitch = \"02:4e:4c:00:00:02\"\nvlans = \"17\"\n[[path]]";
    refused(&said, "[[path]]", path, 17, "two `[[path]]` from one interface to 02:4e:4c:00:00:02");
    let all: String = (2..70).map(|n| format!("[[uplink]]\ndevice = \"eth{n}\"\n")).collect();
    refused(HOST, "[[vif]]", &(all + "[[vif]]"), 5, "more than 64 interfaces");
    let pulls = said.replace("[[path]]", DIRECTORY);
    refused(&pulls, "special_vlan", "locations = \"directory\"\nspecial_vlan", 4, "has one place for a VIF");
    refused(HOST, "[[path]]", "[limits]\nnl_arp_entries = 0\n[[path]]", 1, "`nl_arp_entries` is 1 to");
    refused(HOST, "role = \"host\"", "role = \"tor\"", 2, "unknown variant");
    refused(HOST, "overlay = \"netlord\"", "overlay = \"vxlan\"", 1, "unknown variant");
    let provider = |key: &str, says: &str| refused(HOST, "[[path]]", &format!("[provider]\n{key}\n[[path]]"), 12, says);
    for address in ["10.1.0.0/16", "10.1.255.255/16", "10.1.0.7", "127.0.0.1/8", "224.0.0.1/8", "fd00::1/64", "dhcpd"] {
        provider(&format!("address = \"{address}\""), "is not an IPv4 address of a host");
    }
    for device in ["", "elevenlettrs", "a b", "-x"] {
        provider(&format!("device = \"{device}\""), "no name for it");
    }
    for device in ["eth0", "tap0"] {
        provider(&format!("device = \"{device}\""), "is another's");
    }
    provider("adress = \"dhcp\"", "unknown field");
    let asks = HOST.replace("special_vlan", "locations = \"directory\"\nspecial_vlan").replace("[[path]]", DIRECTORY);
    refused(&asks, "locations = \"directory\"", "locations = \"dns\"", 4, "unknown variant");
    refused(&asks, DIRECTORY, "[[path]]", 4, "no directory to ask");
    refused(&asks, "locations = \"directory\"\n", "", 12, "nobody would ask it");
    refused(&asks, "\"10.1.0.7:5303\"", "", 13, "no directory server");
    let keeps = asks.replace("locations = \"directory\"\n", "").replace("[[path]]", "[repository]\nauth = \"mac\"\n[[path]]");
    refused(&keeps, DIRECTORY.strip_suffix("[[path]]").expect("it ends so"), "", 11, "`[repository]` without a directory");
    refused(&keeps, "auth = \"mac\"", "auth = \"tls\"", 16, "over TLS needs certificates");
    refused(&keeps, "auth = \"mac\"\n", "", 15, "over TLS needs certificates");
    refused(&keeps, "auth = \"mac\"", "auth = \"mac\"\ncert = \"a.pem\"", 16, "keyed MACs need no certificates");
    for (old, new) in [("certificate", "cert"), ("certificate_key", "cert_key"), ("authority", "ca")] {
        let renamed = format!("`{old}` has been renamed: write `{new}`");
        refused(&keeps, "auth = \"mac\"", &format!("auth = \"mac\"\n{old} = \"a.pem\""), 17, &renamed);
    }
    refused(&keeps, "auth = \"mac\"", "auth = \"mac\"\nperiod = \"1ms\"", 15, "less than 100ms");
    refused(HOST, "special_vlan", "paths = \"/etc/weft/paths.toml\"\nspecial_vlan", 4, "paths are said twice");
    refused(&asks, "\"10.1.0.7:5303\"", "\"10.1.0.7\"", 13, "write such as \"10.0.0.1:5303\"");
    refused(&asks, "principal = 40", "principal = 0", 14, "principals begin at 1");
    refused(&asks, "key = \"/etc/weft/agent.key\"\n", "", 0, "missing field `key`");
    // Without the key it is VL2's, which has others.
    refused(HOST, "overlay = \"netlord\"\n", "", 0, "unknown field");
}

#[test]
fn what_is_wrong_with_a_switchs() {
    refused(EDGE, "mac = \"02:4e:4c:00:00:01\"\n", "", 2, "an edge switch has a MAC address");
    refused(EDGE, "mac = \"02", "mac = \"03", 2, "an edge switch has a MAC address");
    refused(EDGE, "role = \"edge\"", "role = \"core\"", 2, "a core switch is sent nothing to");
    refused(EDGE, "fib_entries = 1024", "fib_entries = 0", 4, "no size");
    refused(EDGE, "number = 7", "number = 0", 7, "1 to 126");
    refused(EDGE, "device = \"swp49\"", "device = \"swp49\"\nnumber = 7", 11, "two ports have this number");
    refused(EDGE, "device = \"swp49\"", "device = \"swp7\"", 10, "twice");
    refused(EDGE, "device = \"swp49\"", "device = \"swp49\"\nnative = 5000", 11, "VLANs are 1 to 4094");
    refused(EDGE, "tenant = 17", "tenant = 16777216", 13, "24 bits");
    refused(EDGE, "rate = \"100Mbps\"", "rate = \"fast\"", 13, "`rate`");
    refused(EDGE, "rate = \"100Mbps\"", "", 13, "a limit denies, or has a rate");
    refused(EDGE, "rate = \"100Mbps\"", "rate = \"0Mbps\"", 13, "less than a byte a second");
    refused(EDGE, "tenant = 17\n", "tenant = 17\ndeny = true\n[[limit]]\ntenant = 17\n", 16, "two limits");
    refused(EDGE, "fib_entries = 1024", "fib_entries = 1024\nlldp = \"0s\"", 2, "less than 100 ms");
    let special = |value: &str| format!("special_vlan = {value}\nfib_entries = 1024");
    refused(EDGE, "fib_entries = 1024", &special("2"), 4, "no port to the fabric is in VLAN 2");
    refused(EDGE, "fib_entries = 1024", &special("[4094, 4094]"), 4, "VLANs are 1 to 4094");
    refused(EDGE, "fib_entries = 1024", &special("5000"), 4, "VLANs are 1 to 4094");
    let core = EDGE.replace("mac = \"02:4e:4c:00:00:01\"\n", "").replace("role = \"edge\"", "role = \"core\"");
    refused(&core, "fib_entries = 1024", &special("4094"), 3, "core switches have no limits to share");
}

/// A server whose configuration names a tenant that its file has not: what was put on the interface and pinned before that was found is gone again.
#[test]
fn a_start_that_fails_leaves_nothing() {
    if !ebpf::is_possible() {
        return;
    }
    let name = format!("weft-nlcfg-{}", std::process::id());
    let pins = std::path::PathBuf::from(format!("/sys/fs/bpf/{name}"));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    file("tenants.toml", "version = 1\n[[tenant]]\nid = 17\nname = \"acme\"\n");
    let tenants = folder.path().join("tenants.toml").display().to_string();
    let socket = folder.path().join("agent.sock").display().to_string();
    let more = format!("tenants = \"{tenants}\"\nsocket = \"{socket}\"\npins = \"{}\"\nmetrics = \"off\"\n", pins.display());
    file("agent.toml", &HOST.replace("tenants = \"/etc/weft/tenants.toml\"\n", &more));
    let ip = |arguments: &[&str]| Command::new("ip").args(arguments).output().unwrap();
    assert!(ip(&["netns", "add", &name]).status.success());
    let inside = |program: &str, arguments: &[&str]| {
        let net = format!("--net=/run/netns/{name}");
        Command::new("nsenter").arg(net).arg(program).args(arguments).output().unwrap()
    };
    let made = inside("ip", &["link", "add", "eth0", "type", "veth", "peer", "name", "tap0"]);
    let agent = env!("CARGO_BIN_EXE_weft-agent");
    let started = inside(agent, &["--config", &folder.path().join("agent.toml").display().to_string()]);
    let filters = inside("tc", &["filter", "show", "dev", "eth0", "ingress"]);
    ip(&["netns", "del", &name]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(started.status.code() == Some(2) && said.contains("web1"), "{said}");
    assert!(!pins.exists(), "pins are left");
    assert_eq!(String::from_utf8_lossy(&filters.stdout).trim(), "", "a program is left");
}
