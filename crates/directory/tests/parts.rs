//! A directory that is divided into four parts, as real processes: each has an etcd and two servers of its own.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::agent;
use support::daemon::{Daemon, Home, wait};
use support::etcd::{Etcd, free_ports};
use support::shared::{WRITER, client_of};
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use weft_control::wire::directory::{Finding, Op};
use weft_directory::client::{Client, ClientError};

const HOST: PrincipalId = PrincipalId(17);
const NAMES: [&str; 4] = ["rest", "b", "c", "d"];
/// What parts 1 to 3 have.
const KEYS: [&str; 3] = ["prefixes = [\"20.128.0.0/9\"]", "prefixes = [\"fd00::/8\"]", "tenants = [\"5-9\"]"];

/// The `n`th key of a part.
fn key(part: usize, n: u16) -> Key {
    let [high, low] = n.to_be_bytes();
    let text = match part {
        0 => format!("20.0.{high}.{low}"),
        1 => format!("20.128.{high}.{low}"),
        2 => format!("fd00::{n:x}"),
        _ => format!("tenant:5/0/10.0.{high}.{low}"),
    };
    text.parse().unwrap()
}

fn value(n: u16, service: u32, owner: PrincipalId) -> Value {
    let [high, low] = n.to_be_bytes();
    let (locator, service) = (Locator::V4([10, 1, high, low].into()), ServiceId(service));
    Value::Mapping(Mapping { locator, mac: None, group: GroupId(0), service, owner, lease_ms: 60_000 })
}

/// All parts; `servers` a part.
struct Site {
    home: Home,
    etcds: Vec<Etcd>,
    /// By part.
    servers: Vec<Vec<Daemon>>,
    addresses: Vec<Vec<String>>,
}

impl Site {
    fn start(servers: usize) -> Option<Self> {
        let etcds: Vec<Etcd> = (0..4).map_while(|_| Etcd::start(1)).collect();
        if etcds.len() < 4 {
            return None;
        }
        let home = Home::new();
        let ports = free_ports(4 * servers);
        let addresses: Vec<Vec<String>> =
            ports.chunks(servers).map(|ports| ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()).collect();
        let mut site = Self { home, etcds, servers: Vec::new(), addresses };
        let policy = site.policy(1, KEYS);
        for (part, etcd) in site.etcds.iter().enumerate() {
            let store = format!("etcd:{}", etcd.urls().join(","));
            let start = |(n, at): (usize, &String)| {
                let principal = (100 + 2 * part + n).to_string();
                let more =
                    ["--store", &store, "--listen", at, "--part", NAMES[part], "--policy", &policy, "--principal", &principal];
                site.home.begin(&more, &[])
            };
            site.servers.push(site.addresses[part].iter().enumerate().map(start).collect());
        }
        site.servers.iter_mut().flatten().for_each(Daemon::wait_ready);
        Some(site)
    }

    /// Writes the policy: a service that all may resolve, one that nobody else may, and the parts.
    fn policy(&self, version: u32, keys: [&str; 3]) -> String {
        let mut text = format!(
            "version = {version}\n[[service]]\nname = \"web\"\nid = 1\nallow = [\"*\"]\n[[service]]\nname = \"db\"\nid = 2\n\
             [[principal]]\nid = 7\nrole = \"admin\"\n"
        );
        for principal in 100..108 {
            text += &format!("[[principal]]\nid = {principal}\nrole = \"server\"\n");
        }
        for (part, name) in NAMES.into_iter().enumerate() {
            let keys = if part == 0 { "default = true" } else { keys[part - 1] };
            text += &format!("[[part]]\nname = \"{name}\"\nservers = {:?}\n{keys}\n", self.addresses[part]);
        }
        self.home.write("policy.toml", &text)
    }

    /// A client that knows one server of a part.
    fn client(&self, part: usize) -> Client {
        client_of(WRITER, &self.addresses[part][..1], Duration::from_secs(3))
    }

    /// The command line, which knows one server of part `b`.
    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
        command.args(arguments).args(["--servers", &self.addresses[1][0], "--principal", "7", "--auth", "mac"]);
        command.arg("--dir").arg(self.home.path()).env_remove("WEFT_LOG").output().unwrap()
    }

    /// What a command that succeeds prints.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn put(client: &mut Client, key: Key, value: Value) -> Result<UpdateResult, ClientError> {
    Ok(client.update(vec![Op { key, expect: None, value: Some(value) }], None)?.result)
}

fn find(client: &mut Client, keys: &[Key], asker: Option<&Key>) -> Vec<Finding> {
    let found = client.look_up(keys, asker, Generation(0)).unwrap();
    found.findings.into_iter().map(|(_, finding)| finding).collect()
}

/// Updates of the three parts, one after the other, for a while: how many, and how long the slowest took.
fn write_for(client: &mut Client, parts: &[usize], time: Duration) -> (usize, Duration) {
    let (begun, mut count, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    while begun.elapsed() < time {
        for &part in parts {
            let asked = Instant::now();
            let result = put(client, key(part, 1000 + count as u16 % 100), value(count as u16, 1, HOST)).unwrap();
            assert!(matches!(result, UpdateResult::Committed(_)), "part {part}: {result:?}");
            slowest = slowest.max(asked.elapsed());
            count += 1;
        }
    }
    (count, slowest)
}

#[test]
fn one_parts_store_is_lost_and_the_others_do_not_notice() {
    let Some(mut site) = Site::start(2) else { return };
    for from in 0..4 {
        let mut client = site.client(from);
        for part in 0..4 {
            let result = put(&mut client, key(part, from as u16), value(part as u16, 1, HOST)).unwrap();
            assert!(matches!(result, UpdateResult::Committed(_)), "{result:?}");
        }
        let all: Vec<Key> = (0..4).map(|part| key(part, from as u16)).collect();
        let expected: Vec<Finding> = (0..4).map(|part| Finding::Found(value(part, 1, HOST))).collect();
        assert_eq!(find(&mut client, &all, None), expected, "in the order asked");
    }
    // An agent, and a client, on behalf of an address of another part.
    put(&mut site.client(0), key(1, 500), value(1, 2, HOST)).unwrap();
    let mut host = client_of(HOST, &site.addresses[2], Duration::from_secs(3));
    let own = key(0, 0);
    let found = find(&mut host, &[key(1, 0), key(1, 500), key(2, 0)], Some(&own));
    assert!(matches!(&found[..], [Finding::Found(_), Finding::Forbidden, Finding::Found(_)]), "{found:?}");
    let keys: Vec<Key> = (0..4).flat_map(|part| (0..4).map(move |n| key(part, n))).collect();
    let seen = agent::look_up(&site.addresses[3], &keys, 300, Duration::from_millis(2), 5);
    assert_eq!(seen.failed, 0, "{:?}", seen.counts);

    let two = vec![key(1, 0), key(2, 0)].into_iter().map(|key| Op { key, expect: None, value: None }).collect();
    let error = site.client(0).update(two, None).unwrap_err().to_string();
    assert!(error.contains("part b") && error.contains("part c"), "{error}");

    let mut client = site.client(1);
    let others = [1, 2, 3];
    let before = write_for(&mut client, &others, Duration::from_secs(2));
    site.etcds[0].kill(0);
    let after = write_for(&mut client, &others, Duration::from_secs(4));
    println!("updates and the slowest, before and after: {before:?}, {after:?}");
    assert!(after.0 > before.0 / 2, "{before:?} and {after:?}");
    assert!(after.1 < Duration::from_millis(500), "{before:?} and {after:?}");
    // The part itself: lookups go on, also for askers that it has; updates are not taken.
    site.servers[0][0].wait_metric("state", |state| state == 2.0);
    assert_eq!(find(&mut client, &[key(0, 1)], None), [Finding::Found(value(0, 1, HOST))]);
    let found = find(&mut client_of(HOST, &site.addresses[2], Duration::from_secs(3)), &[key(2, 1)], Some(&own));
    assert!(matches!(&found[..], [Finding::Found(_)]), "{found:?}");
    assert_eq!(put(&mut client, key(0, 1), value(9, 1, HOST)).unwrap(), UpdateResult::NotApplied);
    site.etcds[0].restart(0);
    site.etcds[0].wait();
    let back = || put(&mut site.client(2), key(0, 1), value(9, 1, HOST)).is_ok_and(|it| matches!(it, UpdateResult::Committed(_)));
    wait("it takes updates again", back, || site.servers[0][0].log());
    // All servers of a part end: the others answer as before.
    for server in &site.servers[1] {
        server.signal(Signal::SIGKILL);
    }
    let rest = write_for(&mut site.client(2), &[0, 2, 3], Duration::from_secs(1));
    assert!(rest.1 < Duration::from_millis(500), "{rest:?}");
    let seen = agent::look_up(&site.addresses[3], &[key(0, 1), key(2, 1), key(3, 1)], 100, Duration::from_millis(2), 6);
    assert_eq!(seen.failed, 0, "{:?}", seen.counts);
}

#[test]
fn commands_work_on_all_parts_or_on_one() {
    let Some(site) = Site::start(1) else { return };
    for part in 0..4 {
        let key = key(part, 7).to_string();
        site.run(&["put", &key, "10.0.1.1", "--owner", "17", "--unchecked"]);
        assert!(site.run(&["get", &key]).contains("10.0.1.1"));
    }
    let list = site.run(&["list", "--json"]);
    assert_eq!(list.lines().count(), 4, "{list}");
    assert_eq!(site.run(&["list", "--json", "--part", "c"]).lines().count(), 1);
    let status: serde_json::Value = serde_json::from_str(&site.run(&["status", "--json"])).unwrap();
    let of = |at: usize, what: &str| status["servers"][at][what].clone();
    assert_eq!((status["ok"].clone(), status["servers"].as_array().unwrap().len()), (true.into(), 4), "{status}");
    assert_eq!(
        (of(3, "part"), of(3, "entries"), of(3, "status")["part"].clone()),
        ("d".into(), 1.into(), "d".into()),
        "{status}"
    );
    assert!(site.run(&["status"]).contains("part"));
    let file = site.home.path().join("all.jsonl");
    let file = file.to_str().unwrap();
    site.run(&["export", file]);
    for part in 0..4 {
        site.run(&["del", &key(part, 7).to_string()]);
    }
    assert_eq!(site.run(&["list", "--json"]).lines().count(), 0);
    site.run(&["put", "20.0.0.99", "10.0.1.1", "--unchecked"]);
    let said = site.run(&["import", file, "--exact"]);
    assert!(said.contains("4 written") && said.contains("1 deleted"), "{said}");
    assert_eq!(site.run(&["list", "--json"]).lines().count(), 4);
    // What has one revision is of one part.
    for arguments in [&["watch"][..], &["backup", "all.backup"]] {
        let refused = site.command(arguments);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains("rest, b, c, d") && said.contains("--part"), "{said}");
    }
    let backup = site.home.path().join("d.backup");
    let backup = backup.to_str().unwrap();
    assert!(site.run(&["backup", backup, "--part", "d"]).starts_with("1 mappings"));
    site.run(&["del", &key(3, 7).to_string()]);
    site.run(&["restore", backup, "--part", "d"]);
    assert_eq!(site.run(&["list", "--json", "--part", "d"]).lines().count(), 1);
    let unknown = site.command(&["list", "--part", "x"]);
    assert!(unknown.status.code() == Some(2) && String::from_utf8_lossy(&unknown.stderr).contains("no part `x`"), "{unknown:?}");
    // Documents are the default part's, and denied principals are denied everywhere.
    site.run(&["publish", "notes", &site.home.write("notes", "text"), "--version", "1"]);
    assert!(client_of(WRITER, &site.addresses[2], Duration::from_secs(3)).document("notes", 0).is_ok_and(|it| {
        matches!(it.0, weft_directory::client::Fetched::Document { version: 1, .. }) && it.1 == site.addresses[0][0]
    }));
    assert_eq!(site.run(&["deny", "17"]).lines().count(), 4);
    for part in 0..4 {
        let is_denied = || {
            let mut host = client_of(HOST, &site.addresses[part], Duration::from_millis(300));
            host.look_up(&[key(part, 7)], None, Generation(0)).is_err()
        };
        wait("it is denied", is_denied, || site.servers[part][0].log());
    }
}

/// As `docs/directory.md` says: announce, copy, move, copy what has changed since.
#[test]
fn keys_move_from_one_part_to_another_and_nobody_is_interrupted() {
    let Some(site) = Site::start(1) else { return };
    let mut client = site.client(0);
    for n in 0..20 {
        put(&mut client, key(1, n), value(n, 1, HOST)).unwrap();
    }
    let keys: Vec<Key> = (0..20).map(|n| key(1, n)).collect();
    let policy = |version: u32, of_b: &str, of_c: &str| {
        site.policy(version, [of_b, of_c, KEYS[2]]);
        let has = |daemon: &Daemon| daemon.scrape().of("policy_version") == f64::from(version);
        wait("all have it", || site.servers.iter().flatten().all(has), || site.servers[1][0].log());
    };
    let servers = site.addresses[0].clone();
    let agent = std::thread::spawn(move || agent::look_up(&servers, &keys, 1500, Duration::from_millis(4), 7));
    policy(2, KEYS[0], &format!("{}\nincoming.prefixes = [\"20.128.0.0/16\"]", KEYS[1]));
    let file = site.home.path().join("moved.jsonl");
    let file = file.to_str().unwrap();
    let copy = || {
        site.run(&["export", file, "--part", "b", "--prefix", "20.128.0.0/16"]);
        site.run(&["import", file, "--part", "c"])
    };
    assert!(copy().contains("20 written"));
    let late = put(&mut client, key(1, 3), value(300, 1, HOST)).unwrap();
    assert!(matches!(late, UpdateResult::Committed(_)));
    policy(3, KEYS[0], "prefixes = [\"fd00::/8\", \"20.128.0.0/16\"]");
    assert!(copy().contains("1 written"));
    let found = find(&mut site.client(3), &[key(1, 3), key(1, 4)], None);
    assert_eq!(found, [Finding::Found(value(300, 1, HOST)), Finding::Found(value(4, 1, HOST))]);
    assert!(matches!(put(&mut client, key(1, 5), value(500, 1, HOST)), Ok(UpdateResult::Committed(_))));
    let of = |part: &str| site.run(&["list", "--json", "--part", part, "--prefix", "20.128.0.0/16"]);
    assert!(of("c").contains("10.1.1.244") && !of("b").contains("10.1.1.244"), "the new part has the update");
    assert_eq!(site.run(&["list", "--json", "--prefix", "20.128.0.0/16"]).lines().count(), 20, "each once");
    let seen = agent.join().unwrap();
    assert_eq!(seen.failed, 0, "{:?}", seen.counts);
}

#[test]
fn a_part_that_the_policy_does_not_have_is_refused() {
    let home = Home::new();
    let part = "[[part]]\nname = \"a\"\nservers = [\"127.0.0.1:5303\"]\ndefault = true\n";
    let divided = home.write("divided.toml", &format!("version = 1\n{part}"));
    let whole = home.write("whole.toml", "version = 1\n");
    assert!(home.refused(&["--policy", &divided]).contains("parts a, and this server has none: start it with --part NAME"));
    assert!(
        home.refused(&["--policy", &divided, "--part", "x"])
            .contains("part `x` of this server is not in the policy, which has a")
    );
    assert!(home.refused(&["--policy", &whole, "--part", "a"]).contains("has no [[part]]"));
    assert!(home.refused(&["--part", "a"]).contains("--policy open"));
    let two = "[[part]]\nname = \"b\"\nservers = [\"127.0.0.1:5304\"]\nprefixes = [\"10.0.0.0/8\"]\n";
    let two = home.write("two.toml", &format!("version = 1\n{part}{two}"));
    let peer = home.refused(&["--policy", &two, "--part", "a", "--peer", "127.0.0.1:5304"]);
    assert!(peer.contains("127.0.0.1:5304 is a server of part `b`"), "{peer}");
    let twice = home.write("twice.toml", &format!("version = 1\n{part}{part}"));
    assert!(home.refused(&["--policy", &twice, "--part", "a"]).contains("127.0.0.1:5303 is listed twice"));
}
