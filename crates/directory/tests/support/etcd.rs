//! An etcd on loopback or on the hosts of a test's network, in a folder of its own, gone when it is dropped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::network::{Host, Namespace};
use super::shared::die_with_parent;

/// The members of one etcd.
pub struct Etcd {
    members: Vec<Member>,
    folder: tempfile::TempDir,
    program: PathBuf,
    /// Further arguments of etcdctl.
    credentials: Vec<String>,
}

/// Files of an etcd's TLS.
pub struct EtcdTls {
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

struct Member {
    child: Child,
    client: String,
    peer: String,
    arguments: Vec<String>,
    namespace: Option<Namespace>,
}

impl Etcd {
    /// Starts so many members and waits until they have a leader. None where no etcd is installed, except in CI.
    pub fn start(count: usize) -> Option<Self> {
        Self::start_with(count, None)
    }

    /// One member with a small quota.
    pub fn start_small(bytes: u32) -> Option<Self> {
        Self::start_more(&loopback(1), None, &["--quota-backend-bytes", &bytes.to_string()])
    }

    /// The same; with TLS, clients must show a certificate of the authority. One file serves as the members' and as the client's.
    pub fn start_with(count: usize, tls: Option<&EtcdTls>) -> Option<Self> {
        Self::start_more(&loopback(count), tls, &[])
    }

    /// A member on each of these hosts, with a small disk of its own, which only this thread and its processes see. A member writes a snapshot after
    /// every hundred updates, so that a full disk is noticed soon. As root.
    pub fn start_on(hosts: &[Host]) -> Option<Self> {
        let at =
            |host: &Host| Place { urls: [2379, 2380].map(|port| format!("http://{}:{port}", host.ip)), host: Some(host.clone()) };
        Self::start_more(&hosts.iter().map(at).collect::<Vec<_>>(), None, &["--snapshot-count", "100"])
    }

    fn start_more(places: &[Place], tls: Option<&EtcdTls>, more: &[&str]) -> Option<Self> {
        let program = program("etcd")?;
        let folder = tempfile::tempdir().unwrap();
        let cluster: Vec<String> = places.iter().enumerate().map(|(at, place)| format!("m{at}={}", place.urls[1])).collect();
        let files = tls.map(|tls| [&tls.ca, &tls.certificate, &tls.key].map(|path| path.to_str().unwrap().to_owned()));
        let members = places.iter().enumerate().map(|(at, place)| {
            let [mut client, peer] = place.urls.clone();
            if tls.is_some() {
                client = client.replace("http:", "https:");
            }
            let data = folder.path().join(format!("m{at}"));
            if place.host.is_some() {
                mount_disk(&data);
            }
            let mut arguments: Vec<String> = [
                "--name",
                &format!("m{at}"),
                "--data-dir",
                data.to_str().unwrap(),
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
                "--initial-cluster",
                &cluster.join(","),
                "--initial-cluster-state",
                "new",
                "--heartbeat-interval",
                "20",
                "--election-timeout",
                "200",
                "--logger",
                "zap",
                "--log-level",
                "error",
            ]
            .map(str::to_owned)
            .into();
            arguments.extend(more.iter().map(|&it| it.to_owned()));
            if let Some([ca, certificate, key]) = &files {
                let flags = ["--client-cert-auth", "--trusted-ca-file", ca, "--cert-file", certificate, "--key-file", key];
                arguments.extend(flags.map(str::to_owned));
            }
            let namespace = place.host.as_ref().map(|host| host.namespace.clone());
            Member { child: spawn(&program, &arguments, namespace.as_ref()), client, peer, arguments, namespace }
        });
        let flags =
            |[ca, certificate, key]: &[String; 3]| ["--cacert", ca, "--cert", certificate, "--key", key].map(str::to_owned);
        let credentials = files.as_ref().map_or_else(Vec::new, |files| flags(files).into());
        let etcd = Self { members: members.collect(), folder, program, credentials };
        etcd.wait();
        Some(etcd)
    }

    /// `http://..` of each member.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }

    /// The number of the member that leads.
    pub fn leader(&self) -> Option<usize> {
        let status = |member: &Member| {
            let out = self.ctl(&[&member.client], &["endpoint", "status", "--write-out", "json", "--command-timeout", "1s"])?;
            let status: serde_json::Value = serde_json::from_slice(&out).ok()?;
            let status = &status[0]["Status"];
            Some(status["leader"].as_u64()? == status["header"]["member_id"].as_u64()?)
        };
        self.members.iter().position(|member| status(member) == Some(true))
    }

    /// Compacts history up to now, by way of one member; says the revision.
    pub fn compact_at(&self, member: usize) -> u64 {
        let urls = self.urls();
        let one = [&urls[member]];
        let out = self.ctl(&one, &["endpoint", "status", "--write-out", "json"]).expect("a member answers");
        let status: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let revision = status[0]["Status"]["header"]["revision"].as_u64().unwrap();
        self.ctl(&one, &["compact", &revision.to_string()]).expect("compaction");
        revision
    }

    /// Sends a signal to a member.
    pub fn signal(&self, at: usize, signal: Signal) {
        kill(Pid::from_raw(self.members[at].child.id().cast_signed()), signal).unwrap();
    }

    /// kill -9.
    pub fn kill(&mut self, at: usize) {
        let child = &mut self.members[at].child;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a member that was killed, on what it left behind.
    pub fn restart(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.child = spawn(&self.program, &member.arguments, member.namespace.as_ref());
    }

    /// Takes a member out of the cluster, with all that it had, and a new one in at its place, as for a machine that was lost.
    pub fn replace(&mut self, at: usize) {
        let member = self.id(at);
        self.change_members(at, &["member", "remove", &member]);
        self.kill(at);
        let data = self.data(at);
        std::fs::remove_dir_all(data.join("member")).unwrap();
        let peer = format!("--peer-urls={}", self.members[at].peer);
        self.change_members(at, &["member", "add", &format!("m{at}"), &peer]);
        let arguments = &mut self.members[at].arguments;
        *arguments.iter_mut().find(|it| *it == "new" || *it == "existing").unwrap() = "existing".to_owned();
        self.restart(at);
    }

    /// By way of the others, and again: members that have just come back refuse changes for a moment.
    fn change_members(&self, but: usize, arguments: &[&str]) {
        let urls = self.urls();
        let others: Vec<&String> = urls.iter().enumerate().filter(|(at, _)| *at != but).map(|(_, url)| url).collect();
        let begun = Instant::now();
        while self.ctl(&others, arguments).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "etcd does not take {arguments:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A member's name for etcdctl.
    fn id(&self, at: usize) -> String {
        let urls = self.urls();
        let out = self.ctl(&urls.iter().collect::<Vec<_>>(), &["member", "list"]).expect("etcd has a leader");
        let list = String::from_utf8(out).unwrap();
        let peer = &self.members[at].peer;
        let line = list.lines().find(|line| line.contains(peer.as_str())).unwrap_or_else(|| panic!("{peer} is not in {list}"));
        line.split(',').next().unwrap().to_owned()
    }

    /// Until a member takes writes that the others take too.
    pub fn wait_for(&self, at: usize) {
        let url = &self.urls()[at];
        let begun = Instant::now();
        while self.ctl(&[url], &["put", "probe", "1", "--command-timeout", "1s"]).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "member {at} does not come back");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Fills a member's small disk, or makes room on it.
    pub fn fill_disk(&self, at: usize, full: bool) {
        let filler = self.data(at).join("filler");
        if full {
            let mut file = std::fs::File::create(filler).unwrap();
            while std::io::Write::write(&mut file, &[0; 65_536]).is_ok_and(|written| written > 0) {}
        } else {
            std::fs::remove_file(filler).unwrap();
        }
    }

    /// Where a member keeps its data.
    pub fn data(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("m{at}"))
    }

    /// Until the members take writes.
    pub fn wait(&self) {
        let urls = self.urls();
        let urls: Vec<&String> = urls.iter().collect();
        let begun = Instant::now();
        while self.ctl(&urls, &["put", "probe", "1", "--command-timeout", "1s"]).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "etcd does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Enables authentication: `root:secret` may do everything, `reader:guest` may read what directories keep.
    pub fn enable_auth(&self) {
        let urls = self.urls();
        // Some of etcd's versions have the role `root` from the beginning.
        let _ = self.ctl(&[&urls[0]], &["role", "add", "root"]);
        for command in [
            "user add root:secret",
            "user grant-role root root",
            "role add reader",
            "role grant-permission reader read /weft --prefix=true",
            "user add reader:guest",
            "user grant-role reader reader",
            "auth enable",
        ] {
            self.ctl(&[&urls[0]], &command.split(' ').collect::<Vec<_>>()).expect(command);
        }
    }

    /// etcdctl; its output if it went well.
    pub fn ctl(&self, endpoints: &[&String], arguments: &[&str]) -> Option<Vec<u8>> {
        let endpoints: Vec<&str> = endpoints.iter().map(|url| url.as_str()).collect();
        let mut command = Command::new(self.program.with_file_name("etcdctl"));
        command.env("ETCDCTL_API", "3").arg("--endpoints").arg(endpoints.join(",")).args(&self.credentials).args(arguments);
        let out = command.stderr(Stdio::null()).output().expect("etcdctl runs");
        out.status.success().then_some(out.stdout)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
        for at in 0..self.members.len() {
            let _ = umount2(&self.data(at), MntFlags::MNT_DETACH);
        }
    }
}

/// A disk that a test can fill: etcd takes 130 MB of it at once, for its log.
fn mount_disk(folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), Some("size=256m,mode=700")).unwrap();
}

/// Where a member is.
struct Place {
    /// For clients and for the other members.
    urls: [String; 2],
    host: Option<Host>,
}

fn loopback(count: usize) -> Vec<Place> {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    free_ports(2 * count).chunks(2).map(|ports| Place { urls: [url(ports[0]), url(ports[1])], host: None }).collect()
}

/// Ports that nobody has now.
pub fn free_ports(count: usize) -> Vec<u16> {
    let taken: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    taken.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

fn spawn(program: &Path, arguments: &[String], namespace: Option<&Namespace>) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    die_with_parent(&mut command);
    if let Some(namespace) = namespace {
        namespace.hold(&mut command);
    }
    command.spawn().expect("etcd starts")
}

/// The program that scripts/setup-etcd.sh unpacked, or the one on the PATH.
fn program(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/etcd/usr/bin").join(name);
    let on_path = std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file());
    let found = if root.is_file() { Some(root) } else { on_path };
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no etcd: run scripts/setup-etcd.sh");
        eprintln!("skipped: there is no etcd; scripts/setup-etcd.sh gets one");
    }
    found
}
