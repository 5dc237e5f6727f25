//! What an operator sees of one server: a policy that is read again, metrics, systemd, pinned threads, ports that are taken.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::daemon::{Daemon, Home, wait};
use support::model::{key, value_of};
use support::shared::{WRITER, secret};
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::auth::Secret;
use weft_control::directory::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use weft_control::wire::directory::{Finding, Kind, Lookup, Op};
use weft_directory::client::{Auth, Client, ClientError, Session, Settings};

const WEB_HOST: PrincipalId = PrincipalId(17);
const WEB: Key = Key::App4(Ipv4Addr::new(10, 0, 0, 1));
const DATABASE: Key = Key::App4(Ipv4Addr::new(10, 0, 0, 2));

fn policy(version: u32, allow: &str) -> String {
    format!(
        "version = {version}\n[[service]]\nname = \"web\"\nid = 1\n[[service]]\nname = \"database\"\nid = 2\nallow = [{allow}]\n\
         [[principal]]\nid = 7\nrole = \"provisioner\"\n"
    )
}

fn mapping(service: u32, owner: PrincipalId) -> Value {
    let locator = Locator::V4(Ipv4Addr::new(10, 1, 0, 1));
    Value::Mapping(Mapping { locator, mac: None, group: GroupId(0), service: ServiceId(service), owner, lease_ms: 60_000 })
}

/// Whether the web's host gets the database's address.
fn may(daemon: &Daemon) -> bool {
    match daemon.client(WEB_HOST).look_up(&[DATABASE], Some(&WEB), Generation(0)).unwrap().findings.remove(0).1 {
        Finding::Found(_) => true,
        Finding::Forbidden => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_policy_is_read_again_and_a_bad_one_is_refused() {
    let home = Home::new();
    let file = home.write("policy.toml", &policy(1, "\"web\""));
    let daemon = home.start(&["--policy", &file]);
    assert!(daemon.put(WEB, mapping(1, WEB_HOST)).is_some());
    assert!(daemon.put(DATABASE, mapping(2, PrincipalId(18))).is_some());
    assert!(may(&daemon));

    home.write("policy.toml", &policy(2, ""));
    let begun = Instant::now();
    daemon.signal(Signal::SIGHUP);
    wait("the permission is withdrawn", || !may(&daemon), || daemon.log());
    eprintln!("withdrawn {:?} after SIGHUP", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_millis(800), "at once");
    daemon.wait_metric("policy_version", |version| version == 2.0);
    assert!(daemon.log().contains("a new policy is in force"), "{}", daemon.log());

    let contradiction = policy(3, "\"*\"").replace("allow = [\"*\"]", "allow = [\"web\"]\ndeny = [\"web\"]");
    for (bad, said) in [
        ("version = \n".to_owned(), "the policy cannot be read"),
        (policy(2, "\"web\""), "its version, 2, is not greater than 2"),
        (policy(1, "\"web\""), "its version, 1, is not greater than 2"),
        (contradiction, "both allows and denies `web`"),
    ] {
        let errors = daemon.scrape().of("policy_errors_total");
        home.write("policy.toml", &bad);
        daemon.signal(Signal::SIGHUP);
        daemon.wait_log(said);
        daemon.wait_metric("policy_errors_total", |now| now > errors);
        assert!(!may(&daemon), "the old policy is kept");
    }
    std::fs::remove_file(&file).unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.wait_log("No such file");
    assert!(!may(&daemon));
    assert_eq!(daemon.scrape().of("policy_version"), 2.0);

    // Without a signal: the file is looked at every second.
    home.write("policy.toml", &policy(3, "\"web\""));
    wait("the changed file is in force", || may(&daemon), || daemon.log());
    home.write("policy.toml", "nonsense");
    daemon.wait_log("nonsense");
    assert!(may(&daemon));
    home.write("policy.toml", &policy(4, ""));
    wait("the next good one is in force", || !may(&daemon), || daemon.log());
}

#[test]
fn a_bad_policy_at_the_start_is_refused() {
    let home = Home::new();
    let file = home.write("policy.toml", &policy(1, "\"webb\""));
    let said = home.refused(&["--policy", &file]);
    assert!(said.contains("policy.toml") && said.contains("names service `webb`"), "{said}");
}

/// Raw datagrams of a client.
struct Raw {
    socket: UdpSocket,
    session: Session,
}

impl Raw {
    fn to(daemon: &Daemon) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(daemon.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut raw = Self { socket, session: Session::new(WRITER, Some(&secret().key_of(WRITER))) };
        // The first is answered by a challenge, from which the session has its cookie.
        let first = raw.look_up();
        assert_eq!(raw.ask(&first), Some(Kind::Challenge));
        raw
    }

    fn look_up(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.session.seal(Kind::Lookup, |out| Lookup::emit(Generation(0), None, &[key(0)], out), &mut out);
        out
    }

    fn ask(&mut self, bytes: &[u8]) -> Option<Kind> {
        self.socket.send(bytes).unwrap();
        let mut buffer = [0; 2048];
        let length = self.socket.recv(&mut buffer).ok()?;
        self.session.open(&buffer[..length]).map(|frame| frame.header.kind)
    }
}

#[test]
fn metrics_grow_and_say_why_datagrams_were_dropped() {
    let home = Home::new();
    let daemon = home.start(&[]);
    let before = daemon.scrape();
    assert!(daemon.put(key(0), value_of(1)).is_some());
    assert!(matches!(daemon.find(key(0)), Finding::Found(_)));
    assert_eq!(daemon.find(key(1)), Finding::Unknown);

    let mut raw = Raw::to(&daemon);
    let good = raw.look_up();
    assert_eq!(raw.ask(&good), Some(Kind::Answer));
    // None of these is answered: the answer that comes is the last one's.
    raw.socket.send(&good).unwrap();
    let mut forged = raw.look_up();
    *forged.last_mut().unwrap() ^= 1;
    raw.socket.send(&forged).unwrap();
    let mut next_version = raw.look_up();
    next_version[2] = 2;
    raw.socket.send(&next_version).unwrap();
    for malformed in [&b""[..], b"WD", b"GET / HTTP/1.1\r\n\r\n", &good[..good.len() - 1]] {
        raw.socket.send(malformed).unwrap();
    }
    let mut unknown_type = raw.look_up();
    unknown_type[3] = 0x7f;
    raw.socket.send(&unknown_type).unwrap();
    raw.socket.send(&vec![0; 9000]).unwrap();
    let last = raw.look_up();
    assert_eq!(raw.ask(&last), Some(Kind::Answer), "the server goes on");

    let after = daemon.scrape();
    let grown = |name: &str| after.of(name) - before.of(name);
    let dropped = |reason: &str| grown(&format!("dropped_total{{reason=\"{reason}\"}}"));
    assert_eq!(dropped("replayed"), 1.0, "{after:#?}");
    assert_eq!(dropped("version"), 1.0, "{after:#?}");
    // A frame that was cut has, at its end, something that is no tag.
    assert_eq!((dropped("tag"), dropped("malformed"), dropped("oversized")), (2.0, 4.0, 1.0), "{after:#?}");
    assert!(grown("requests_total{kind=\"lookup\"}") >= 4.0 && grown("requests_total{kind=\"update\"}") >= 1.0, "{after:#?}");
    assert!(
        grown("findings_total{finding=\"found\"}") >= 3.0 && grown("findings_total{finding=\"unknown\"}") == 1.0,
        "{after:#?}"
    );
    assert_eq!(grown("updates_total{outcome=\"committed\"}"), 1.0, "{after:#?}");
    assert!(grown("challenges_total") >= 1.0 && grown("datagrams_sent_total") >= 5.0, "{after:#?}");
    assert!(grown("datagrams_received_total") >= 14.0 && grown("answer_seconds_count") >= 5.0, "{after:#?}");
    assert_eq!(grown("commit_seconds_count"), 1.0, "{after:#?}");
    daemon.wait_metric("entries", |entries| entries == 1.0);
    daemon.wait_metric("state", |state| state == 1.0);
    daemon.wait_metric("revision", |revision| revision > before.of("revision"));
    assert!(daemon.scrape().of("table_bytes") > 0.0 && daemon.scrape().of("policy_version") == 1.0);
}

#[test]
fn systemd_is_notified_when_it_serves_and_when_it_stops() {
    let home = Home::new();
    let path = home.path().join("notify");
    let named = UnixDatagram::bind(&path).unwrap();
    let name = format!("weft-notify-{}", std::process::id());
    let unnamed = UnixDatagram::bind_addr(&UnixAddress::from_abstract_name(&name).unwrap()).unwrap();
    for (socket, address) in [(named, path.to_str().unwrap()), (unnamed, &format!("@{name}"))] {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let heard = || {
            let mut buffer = [0; 64];
            let length = socket.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        let mut daemon = home.begin(&[], &[("NOTIFY_SOCKET", address)]);
        assert_eq!(heard(), "READY=1");
        daemon.wait_ready();
        daemon.signal(Signal::SIGTERM);
        assert_eq!(heard(), "STOPPING=1");
        assert_eq!(daemon.wait_end(), Some(0));
    }
}

/// The cores that a process's threads of a name may run on.
fn cores_of(daemon: &Daemon, thread: &str) -> Option<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap();
    let task = tasks
        .map(|task| task.unwrap().path())
        .find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread))?;
    let status = std::fs::read_to_string(task.join("status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|cores| cores.trim().to_owned())
}

#[test]
fn threads_are_pinned_to_the_cores_that_are_named() {
    let home = Home::new();
    let daemon = home.start(&["--threads", "2", "--cores", "0"]);
    assert_eq!(daemon.find(key(0)), Finding::Unknown);
    assert_eq!([cores_of(&daemon, "udp-0"), cores_of(&daemon, "udp-1")], [Some("0".into()), Some("0".into())]);
    drop(daemon);
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2) {
        let daemon = home.start(&["--threads", "2", "--cores", "1,0"]);
        assert_eq!([cores_of(&daemon, "udp-0"), cores_of(&daemon, "udp-1")], [Some("1".into()), Some("0".into())]);
    }
    let said = home.refused(&["--cores", "0,900"]);
    assert!(said.contains("core 900 cannot be used"), "{said}");
}

#[test]
fn a_port_in_use_is_refused() {
    let home = Home::new();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let said = home.refused(&["--listen", &udp.local_addr().unwrap().to_string()]);
    assert!(said.contains("is in use"), "{said}");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = tcp.local_addr().unwrap().to_string();
    let said = home.refused(&["--listen", &taken]);
    assert!(said.contains(&format!("{taken} is in use")), "{said}");
    let said = home.refused(&["--metrics", &taken]);
    assert!(said.contains("metrics") && said.contains(&taken), "{said}");
    // Another server's port, although the sockets of one server share it.
    let daemon = home.start(&[]);
    let said = home.refused(&["--listen", &daemon.address()]);
    assert!(said.contains("is in use"), "{said}");
    assert_eq!(daemon.find(key(0)), Finding::Unknown);
    // Its folder.
    let said = home.refused(&[]);
    assert!(said.contains("in use by another server"), "{said}");
}

/// While a new secret takes the place of an old one, hosts with keys of either look up, write and list; afterwards those of the old one do not.
#[test]
fn a_secret_is_replaced_without_a_gap() {
    let home = Home::new();
    let new = Secret::new([8; 32]);
    let file = home.write("new-secret", &new.to_hex());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, mode).unwrap();
    let old_file = home.path().join("secret");
    let clients = |daemon: &Daemon| {
        [secret(), new.clone()].map(|secret| {
            let key = Some(secret.key_of(WRITER));
            let (servers, timeout) = (vec![daemon.address()], Duration::from_secs(2));
            Client::new(Settings { servers, principal: WRITER, key, auth: Auth::Mac, timeout, only: false }).unwrap()
        })
    };
    let daemon = home.start(&["--secret", &file, "--old-secret", old_file.to_str().unwrap()]);
    for (number, mut client) in (1..).zip(clients(&daemon)) {
        let op = Op { key: key(number), expect: None, value: Some(value_of(u16::from(number))) };
        let updated = client.update(vec![op], None).unwrap();
        let UpdateResult::Committed(generation) = updated.result else { panic!("{updated:?}") };
        assert_eq!(client.look_up(&[key(number)], None, generation).unwrap().findings[0].0, generation);
        assert_eq!(client.page(None, 10).unwrap().entries.len(), usize::from(number));
    }
    drop(daemon);
    let daemon = home.start(&["--secret", &file]);
    let [mut old, mut present] = clients(&daemon);
    assert!(present.look_up(&[key(1)], None, Generation(0)).is_ok());
    assert!(matches!(old.look_up(&[key(1)], None, Generation(0)), Err(ClientError::NoAnswer { .. })));
}

#[test]
fn after_a_stall_old_lookups_are_dropped_and_new_ones_answered() {
    let home = Home::new();
    let daemon = home.start(&[]);
    assert!(daemon.put(key(0), value_of(1)).is_some());
    let mut raw = Raw::to(&daemon);
    let good = raw.look_up();
    assert_eq!(raw.ask(&good), Some(Kind::Answer));
    let mut health = Vec::new();
    daemon.signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(20));
    raw.session.seal(Kind::Health, |_| {}, &mut health);
    raw.socket.send(&health).unwrap();
    let sent = 50;
    for _ in 0..sent {
        let old = raw.look_up();
        raw.socket.send(&old).unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    daemon.signal(Signal::SIGCONT);
    let begun = Instant::now();
    let mut buffer = [0; 2048];
    let length = raw.socket.recv(&mut buffer).unwrap();
    let first = raw.session.open(&buffer[..length]).unwrap().header.kind;
    assert_eq!(first, Kind::Vitals, "Health is answered, however old it is");
    // What comes next is of the newest, for the old ones are dropped.
    let new = raw.look_up();
    let request = raw.session.request();
    raw.socket.send(&new).unwrap();
    let length = raw.socket.recv(&mut buffer).unwrap();
    let frame = raw.session.open(&buffer[..length]).unwrap();
    assert_eq!((frame.header.kind, frame.header.request), (Kind::Answer, request));
    eprintln!("answered {:?} after the stall", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_millis(500));
    daemon.wait_metric("dropped_total{reason=\"stale\"}", |count| count == f64::from(sent));
}
