//! Tenants' records of a real server: subscribed to, changed, restored; and as many as a large cloud has.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::daemon::{Daemon, Home};
use support::etcd::Etcd;
use support::shared::{WRITER, secret};
use weft_control::directory::PrincipalId;
use weft_control::netlord::tenants::records::{Listed, ListedState, Op, Outcome, Plan, Question, View, Why};
use weft_control::wire::directory::RecordsState;
use weft_directory::client::{AmendResult, Auth, Settings, Subscription};
use weft_directory::store::{Embedded, Store as _};

const HOST: PrincipalId = PrincipalId(40);

fn settings(daemon: &Daemon, principal: PrincipalId) -> Settings {
    let (servers, key) = (vec![daemon.address()], Some(secret().key_of(principal)));
    Settings { servers, principal, key, auth: Auth::Mac, timeout: Duration::from_secs(5), only: false }
}

fn subscribe(daemon: &Daemon, principal: PrincipalId) -> Subscription {
    Subscription::open(&daemon.address(), &settings(daemon, principal)).unwrap()
}

fn put(name: &str, body: &str) -> Op {
    Op { name: name.parse().unwrap(), expect: None, body: Some(body.to_owned()) }
}

fn amend(daemon: &Daemon, by: PrincipalId, ops: &[Op]) -> AmendResult {
    daemon.client(by).amend(ops).unwrap().0
}

fn committed(daemon: &Daemon, ops: &[Op]) {
    let result = amend(daemon, WRITER, ops);
    assert!(matches!(result, AmendResult::Decided(Outcome::Committed(_))), "{result:?}\n{}", daemon.log());
}

fn question(tenants: &[(&str, &[&str])], fresh: bool) -> Question {
    let of = |(tenant, vifs): &(&str, &[&str])| ((*tenant).to_owned(), vifs.iter().map(|&it| it.to_owned()).collect());
    Question { fresh, tenants: tenants.iter().map(of).collect() }
}

fn bodies(listed: &[Listed]) -> BTreeMap<String, Option<String>> {
    let body = |it: &Listed| match &it.state {
        ListedState::Present(_, body) => Some(body.clone()),
        ListedState::Absent | ListedState::Forbidden => None,
    };
    listed.iter().map(|it| (it.name.clone(), body(it))).collect()
}

fn web(n: u8) -> String {
    format!("space = 1\nmac = \"02:00:00:00:00:{n:02x}\"\naddresses = [\"10.0.0.{n}\"]\n")
}

/// What holds for servers on every store: `one` takes the changes, and a host subscribes at `other`.
fn agents_have_what_they_may(one: &Daemon, other: &Daemon) {
    let mut agent = subscribe(other, HOST);
    let wants = question(&[("acme", &["web1"])], true);
    let answer = agent.ask(&wants).unwrap();
    assert_eq!((answer.state, answer.listed.len()), (RecordsState::None, 0), "there are no records yet");
    let hosts = amend(one, HOST, &[put("t/acme", "id = 17")]);
    assert_eq!(hosts, AmendResult::Refused, "hosts read, and do not write");
    committed(
        one,
        &[put("site", "service = 1"), put("t/acme", "id = 17"), put("v/acme/web1", &web(1)), put("v/acme/web2", &web(2))],
    );
    let notified = |agent: &mut Subscription| {
        let begun = Instant::now();
        let names = agent.notices(begun + Duration::from_secs(5)).unwrap();
        (names, begun.elapsed())
    };
    let (names, _) = notified(&mut agent);
    assert_eq!(names, [""], "all may have changed");
    let answer = agent.ask(&wants).unwrap();
    let expected = [("site", "service = 1\n"), ("t/acme", "id = 17\nspaces = [1]\n"), ("v/acme/web1", &web(1))];
    let expected: BTreeMap<_, _> = expected.into_iter().map(|(name, body)| (name.to_owned(), Some(body.to_owned()))).collect();
    assert_eq!((answer.state, bodies(&answer.listed)), (RecordsState::Found, expected));

    // Of what it did not ask for it hears nothing.
    committed(one, &[put("v/acme/web2", &web(3)), put("v/acme/web1", &web(4))]);
    let (names, took) = notified(&mut agent);
    assert!(names == ["acme"] && took < Duration::from_secs(1), "{names:?} after {took:?}");
    agent.ask(&wants).unwrap();
    committed(one, &[put("v/acme/web2", &web(5))]);
    assert_eq!(agent.notices(Instant::now() + Duration::from_millis(300)).unwrap(), Vec::<String>::new());

    // Who is no reader has nothing, from the moment at which the readers change.
    committed(one, &[put("t/acme", "id = 17\nreaders = [41]")]);
    assert_eq!(notified(&mut agent).0, ["acme"]);
    let answer = agent.ask(&wants).unwrap();
    assert!(answer.listed.iter().any(|it| it.name == "t/acme" && it.state == ListedState::Forbidden), "{answer:?}");
    assert_eq!(answer.listed.len(), 2, "the site, and that the tenant is forbidden");
    assert!(subscribe(one, PrincipalId(41)).ask(&wants).unwrap().listed.len() > 2);
    let refused = one.client(HOST).browse("v/", "", 10).unwrap().0;
    assert_eq!(refused.state, RecordsState::Refused, "who may not read all does not list");
    let private = one.client(WRITER).browse("m/", "", 10).unwrap().0;
    assert_eq!(private.state, RecordsState::Refused, "what is of the store alone is not listed");
    assert!(matches!(amend(one, WRITER, &[put("v/acme/web9", &web(4))]), AmendResult::Decided(Outcome::Invalid(0, why))
        if why == "vif `web9` of `acme`: address 10.0.0.4 is vif `web1` of `acme`'s already in MAC space 1"));
}

#[test]
fn agents_have_what_they_may_from_an_embedded_store() {
    let home = Home::new();
    let mut daemon = home.start(&[]);
    agents_have_what_they_may(&daemon, &daemon);
    daemon.signal(Signal::SIGKILL);
    daemon.wait_end();
    drop(daemon);
    let daemon = home.start(&[]);
    let (generation, body) = daemon.client(WRITER).record(&"v/acme/web2".parse().unwrap()).unwrap().expect("durable");
    assert!(body.contains("02:00:00:00:00:05") && generation > 1);
}

#[test]
fn agents_have_what_they_may_from_servers_on_etcd() {
    let Some(mut etcd) = Etcd::start(1) else { return };
    let home = Home::new();
    let store = format!("etcd:{}", etcd.urls().join(","));
    let [one, other] = [100, 101].map(|principal| home.start(&["--store", &store, "--principal", &principal.to_string()]));
    agents_have_what_they_may(&one, &other);
    // Of two that take one address at once one is first.
    for round in 10..14 {
        let results = std::thread::scope(|scope| {
            let by = |daemon: &Daemon, vif: &str| {
                let (mut client, op) = (daemon.client(WRITER), put(&format!("v/acme/{vif}{round}"), &web(round)));
                scope.spawn(move || client.amend(&[op]).unwrap().0)
            };
            [by(&one, "x"), by(&other, "y")].map(|it| it.join().unwrap())
        });
        let won = results.iter().filter(|it| matches!(it, AmendResult::Decided(Outcome::Committed(_)))).count();
        let lost = results.iter().filter(|it| matches!(it, AmendResult::Decided(Outcome::Invalid(..)))).count();
        assert_eq!((won, lost), (1, 1), "{results:?}");
    }
    // More VIFs than one read of etcd takes.
    let all: Vec<Op> = (0..300u32)
        .map(|n| put(&format!("v/acme/m{n}"), &format!("space = 1\nmac = \"02:00:00:01:{:02x}:{:02x}\"", n >> 8, n & 255)))
        .collect();
    all.chunks(40).for_each(|some| committed(&one, some));
    let names: Vec<String> = (0..300).map(|n| format!("m{n}")).collect();
    let answer =
        subscribe(&other, PrincipalId(41)).ask(&Question { fresh: true, tenants: vec![("acme".to_owned(), names)] }).unwrap();
    assert_eq!(answer.listed.iter().filter(|it| matches!(it.state, ListedState::Present(..))).count(), 302);
    let mut agent = subscribe(&other, PrincipalId(41));
    let wants = question(&[("acme", &["web1"])], true);
    agent.ask(&wants).unwrap();
    etcd.kill(0);
    assert_eq!(agent.ask(&wants).unwrap().state, RecordsState::Elsewhere, "what is not known is not said");
    etcd.restart(0);
    etcd.wait();
    let agent = std::cell::RefCell::new(agent);
    let is_back = || agent.borrow_mut().ask(&wants).is_ok_and(|it| it.state == RecordsState::Found);
    support::daemon::wait("records are read again", is_back, || other.log());
}

/// The file of a cloud: so many VIFs, in tenants of a thousand.
fn cloud(vifs: u32) -> String {
    let mut text = "version = 1\nservice = 1\n".to_owned();
    for tenant in 0..vifs.div_ceil(1000) {
        let _ = write!(
            text,
            "[[tenant]]\nid = {}\nname = \"t{tenant}\"\n[[router]]\ntenant = \"t{tenant}\"\nname = \"core\"\n",
            tenant + 3
        );
        text += "interfaces = [{ space = 1, mac = \"02:ff:00:00:00:fe\", address = \"10.255.0.254/8\" }]\n";
        for n in 0..1000.min(vifs - tenant * 1000) {
            let (high, low) = (n / 250, n % 250 + 1);
            let _ = write!(
                text,
                "[[vif]]\ntenant = \"t{tenant}\"\nname = \"v{n}\"\nmac = \"02:00:00:00:{high:02x}:{low:02x}\"\naddresses = [\"10.0.{high}.{low}\"]\n"
            );
        }
    }
    text
}

/// How many VIFs a test has.
fn vifs(usual: u32) -> u32 {
    std::env::var("WEFT_VIFS").ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

/// What the store takes of the disk.
fn disk_bytes(home: &Home) -> u64 {
    std::fs::metadata(home.path().join("store/directory.redb")).unwrap().blocks() * 512
}

fn memory_kb(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs `weft tenant` as the administrator: what it says, and how long it took.
fn run(home: &Home, daemon: &Daemon, words: &[&str]) -> (serde_json::Value, Duration) {
    let key = home.write("key", &secret().key_of(WRITER).to_hex());
    let address = daemon.address();
    let connect = ["--servers", &address, "--principal", "7", "--auth", "mac", "--key", &key, "--timeout", "30s", "--json"];
    let begun = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_weft-directory")).arg("tenant").args(words).args(connect).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), begun.elapsed())
}

#[test]
fn a_file_of_many_vifs_is_imported_once() {
    let vifs = vifs(3000);
    let home = Home::new();
    let daemon = home.start(&[]);
    let file = home.write("cloud.toml", &cloud(vifs));
    let (brought, took) = run(&home, &daemon, &["import", &file]);
    let records = vifs + 2 * vifs.div_ceil(1000) + 1;
    assert_eq!(brought["written"], records);
    println!("{vifs} VIFs: {took:?} to import; the server has {} kB", memory_kb(&daemon));
    let (again, took) = run(&home, &daemon, &["import", &file]);
    assert_eq!((&again["written"], &again["unchanged"]), (&0.into(), &records.into()));
    println!("{took:?} to import the same");
    let (list, _) = run(&home, &daemon, &["list", "--store"]);
    assert_eq!(list["tenants"].as_array().unwrap().len() as u32, vifs.div_ceil(1000));
    assert_eq!(list["tenants"][2]["vifs"], 1000);
    let bytes = disk_bytes(&home) / u64::from(vifs);
    println!("{bytes} bytes per VIF");
}

/// Writes a store as such an import does, without the import's checks of each record.
fn fill(home: &Home, vifs: u32) {
    let folder = home.path().join("store");
    let store = Embedded::open(&folder, "weft").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut writes = vec![("site".to_owned(), "service = 1\n".to_owned())];
    for tenant in 0..vifs.div_ceil(1000) {
        let id = tenant + 3;
        writes.push((format!("t/t{tenant}"), format!("id = {id}\nspaces = [1]\n")));
        writes.push((format!("i/{id}"), format!("t{tenant}")));
        writes.push((format!("l/t{tenant}"), String::new()));
        writes.push((format!("r/t{tenant}/core"), CORE.to_owned() + "\n"));
        for (kind, address) in [("m", "02:ff:00:00:00:fe"), ("a", "10.255.0.254")] {
            writes.push((format!("{kind}/{id}/1/{address}"), format!("r/t{tenant}/core")));
        }
        for n in 0..1000.min(vifs - tenant * 1000) {
            let (high, low) = (n / 250, n % 250 + 1);
            let (name, mac, ip) =
                (format!("v/t{tenant}/v{n}"), format!("02:00:00:00:{high:02x}:{low:02x}"), format!("10.0.{high}.{low}"));
            writes.push((format!("m/{id}/1/{mac}"), name.clone()));
            writes.push((format!("a/{id}/1/{ip}"), name.clone()));
            writes.push((name, format!("space = 1\nmac = \"{mac}\"\naddresses = [\"{ip}\"]\n")));
        }
        if writes.len() > 3_000 {
            let writes = std::mem::take(&mut writes).into_iter().map(|(name, body)| (name, Some(body))).collect();
            runtime.block_on(store.amend(Plan { checks: Vec::new(), writes })).unwrap().unwrap();
        }
    }
    let writes = writes.into_iter().map(|(name, body)| (name, Some(body))).collect();
    runtime.block_on(store.amend(Plan { checks: Vec::new(), writes })).unwrap().unwrap();
    drop(store);
    support::lock::wait_until_free(&folder);
}

/// On disk, of a VIF with one address: its record, and who has its MAC address and its address.
const BYTES_PER_VIF: u64 = 250;

const CORE: &str = "interfaces = [{ space = 1, mac = \"02:ff:00:00:00:fe\", address = \"10.255.0.254/8\" }]";

/// `WEFT_VIFS=1000000 cargo nextest run --workspace -E 'test(millions)'` is the full size; docs/performance.md has figures.
#[test]
fn millions_of_vifs_are_on_disk_and_an_agent_has_its_own() {
    let vifs = vifs(20_000);
    let home = Home::new();
    let empty = memory_kb(&home.start(&[]));
    let begun = Instant::now();
    fill(&home, vifs);
    let bytes = disk_bytes(&home) / u64::from(vifs);
    println!("{vifs} VIFs: {:?} to fill a store of {bytes} bytes per VIF", begun.elapsed());
    assert!(bytes < BYTES_PER_VIF, "{bytes} bytes per VIF");
    let begun = Instant::now();
    let daemon = home.start(&[]);
    println!("{:?} to start; {} kB, without records {empty} kB", begun.elapsed(), memory_kb(&daemon));
    let (list, took) = run(&home, &daemon, &["list", "--store"]);
    assert_eq!(list["tenants"].as_array().unwrap().len() as u32, vifs.div_ceil(1000));
    println!("{took:?} to list; {} kB", memory_kb(&daemon));

    // A server with 50 VIFs of as many tenants as there are.
    let (mut agent, mut view) = (subscribe(&daemon, HOST), View::new());
    let tenants = vifs.div_ceil(1000);
    view.want((0..50).map(|n| (format!("t{}", n % tenants), format!("v{}", n * 7 % 1000))));
    view.connected();
    let ask = |agent: &mut Subscription, view: &mut View| {
        let question = view.question();
        view.asked(&question);
        let answer = agent.ask(&question).unwrap();
        let count = answer.listed.len();
        view.answered(&question, answer.listed);
        count
    };
    let begun = Instant::now();
    let count = ask(&mut agent, &mut view);
    println!("{:?} for an agent with 50 VIFs, {count} records", begun.elapsed());
    let all = view.tenants(1).unwrap();
    assert_eq!((all.vifs().count(), all.tenants.len() as u32), (50, tenants.min(50)));
    assert!(view.missing().is_empty());

    // A change reaches it at once.
    let rule = "[[rule]]\naction = \"deny\"\nprotocol = \"icmp\"";
    let begun = Instant::now();
    committed(&daemon, &[put("r/t0/core", &format!("{CORE}\n{rule}"))]);
    let names = agent.notices(Instant::now() + Duration::from_secs(5)).unwrap();
    view.notified(names.iter().map(String::as_str));
    let count = ask(&mut agent, &mut view);
    let took = begun.elapsed();
    println!("{took:?} from a new rule to the agent, {count} records");
    assert_eq!(view.tenants(2).unwrap().by_name("t0").unwrap().routers[0].rules.len(), 1);
    assert!(took < Duration::from_secs(1), "{took:?}");
    view.want([("t0".to_owned(), "none".to_owned())]);
    ask(&mut agent, &mut view);
    assert_eq!(view.missing()[0].why, Why::NoVif);
    let ops: Vec<Op> =
        (0..30u32).map(|n| put(&format!("v/t0/new{n}"), &format!("space = 1\nmac = \"02:00:00:01:00:{n:02x}\""))).collect();
    let begun = Instant::now();
    ops.chunks(1).for_each(|op| committed(&daemon, op));
    println!("{:?} for each new VIF, one after the other", begun.elapsed() / 30);
    let grown = memory_kb(&daemon).saturating_sub(empty);
    println!("the server has grown by {grown} kB");
    assert!(grown < 100_000, "{grown} kB more, whatever the number of VIFs");
}

#[test]
fn what_makes_no_sense_ends_the_stream_and_not_the_server() {
    let home = Home::new();
    let daemon = home.start(&[]);
    for tenants in [vec![("a/b", &[][..])], vec![("acme", &["../x"][..])], vec![("", &[][..])]] {
        let error = subscribe(&daemon, HOST).ask(&question(&tenants, true)).unwrap_err();
        assert!(error.to_string().contains("closed"), "{error}");
    }
    // More names than a stream's place in the budget holds.
    let many: Vec<String> = (0..4000).map(|n| format!("vif-{n}")).collect();
    let mut agent = subscribe(&daemon, HOST);
    let answer = agent.ask(&Question { fresh: true, tenants: vec![("acme".to_owned(), many)] }).unwrap();
    assert_eq!(answer.state, RecordsState::Refused);
    assert_eq!(agent.ask(&question(&[], true)).unwrap().state, RecordsState::None, "and the stream goes on");
    // Who asks again and again waits, and others do not.
    let begun = Instant::now();
    (0..60).for_each(|_| drop(agent.ask(&question(&[], false)).unwrap()));
    assert!(begun.elapsed() > Duration::from_millis(700), "{:?}", begun.elapsed());
    let begun = Instant::now();
    subscribe(&daemon, PrincipalId(41)).ask(&question(&[], true)).unwrap();
    assert!(begun.elapsed() < Duration::from_millis(700), "{:?}", begun.elapsed());
}
