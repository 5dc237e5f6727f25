//! Machines of a plan: namespaces of a test's network, with the planned files at their places, and the programs that run on them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::fabric::Network;
use super::process::program;
use super::shared::die_with_parent;

/// Plans an inventory into a folder below `folder`.
pub fn plan(folder: &Path, inventory: &str) -> PathBuf {
    let (file, out) = (folder.join("inventory.toml"), folder.join("plan"));
    fs::write(&file, inventory).unwrap();
    let mut command = Command::new(program("weft-directory"));
    let output = command.args(["deploy", "plan"]).arg(&file).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// Machines with their planned files, and the programs that run on them.
pub struct Site {
    pub network: Network,
    pub folder: tempfile::TempDir,
    pub running: BTreeMap<String, Running>,
}

/// What runs on a machine: the process that was started, and the first one in its namespaces.
pub struct Running {
    pub child: Child,
    pub pid: u32,
}

impl Drop for Site {
    fn drop(&mut self) {
        for (name, Running { child, .. }) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                let log = fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default();
                eprintln!("--- {name}\n{}", log.get(log.len().saturating_sub(2000)..).unwrap_or(&log));
            }
        }
    }
}

impl Site {
    /// Of these machines, whose network is there.
    pub fn of(network: Network) -> Self {
        Self { network, folder: tempfile::tempdir().unwrap(), running: BTreeMap::new() }
    }

    pub fn plan(&self) -> PathBuf {
        self.folder.path().join("plan")
    }

    pub fn inventory(&self) -> PathBuf {
        self.folder.path().join("inventory.toml")
    }

    /// Starts a machine's daemon, with the planned files at their places, after `before`.
    pub fn start(&mut self, name: &str, before: &str, command: &str) {
        let files = self.plan().join("hosts").join(name);
        let files = files.display();
        let script = format!(
            "mount --bind {files}/etc /etc\n[ ! -d {files}/var/lib ] || mount --bind {files}/var/lib /var/lib\n\
             mount -t tmpfs tmpfs /run\nmkdir /run/weft\nmount -t bpf bpf /sys/fs/bpf\n{before}\nexec {command}\n"
        );
        let child = self.spawn(name, &["--mount", "--propagation", "private", "sh", "-ec", &script]);
        let pid = child.id();
        self.running.insert(name.to_owned(), Running { child, pid });
    }

    /// Boots a machine with its planned files, and the units that they are for.
    pub fn boot(&mut self, name: &str) {
        self.boot_with(name, &self.plan().join("hosts").join(name));
    }

    /// Boots a machine: systemd, with these files on a copy of this machine's root.
    pub fn boot_with(&mut self, name: &str, files: &Path) {
        let folder = self.folder.path().to_owned();
        fs::create_dir(folder.join(format!("{name}.root"))).unwrap();
        let (crates, programs) = (concat!(env!("CARGO_MANIFEST_DIR"), "/.."), program("weft-agent"));
        let programs = programs.parent().unwrap();
        let paths = [folder.to_str().unwrap(), name, files.to_str().unwrap(), crates, programs.to_str().unwrap()];
        let script = [include_str!("boot.sh"), "boot"].into_iter().chain(paths);
        let namespaces = ["--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup", "bash", "-c"];
        let child = self.spawn(name, &namespaces.into_iter().chain(script).collect::<Vec<_>>());
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let pid = child.id();
        let running = self.running.entry(name.to_owned()).or_insert(Running { child, pid });
        wait("systemd", || {
            let text = fs::read_to_string(&children).map_err(|error| error.to_string())?;
            running.pid = text.trim().parse().map_err(|_| text)?;
            // Before that it is the script, in the root of this machine.
            let program = fs::read_link(format!("/proc/{}/exe", running.pid)).map_err(|error| error.to_string())?;
            if program.ends_with("systemd") { Ok(()) } else { Err(program.display().to_string()) }
        });
    }

    /// `unshare` on a machine.
    pub fn spawn(&self, name: &str, arguments: &[&str]) -> Child {
        let log = fs::File::create(self.folder.path().join(format!("{name}.log"))).unwrap();
        let mut command = self.network.command(name, "unshare");
        command.args(arguments).stdin(Stdio::null()).env_remove("NOTIFY_SOCKET");
        command.stdout(log.try_clone().unwrap()).stderr(log);
        die_with_parent(&mut command);
        command.spawn().unwrap()
    }

    /// The unit's command, with its environment, on a directory server.
    pub fn start_directory(&mut self, name: &str) {
        let unit = include_str!("../../../directory/systemd/weft-directory.service");
        let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let command = command.replace("$$", "$").replace("/usr/bin/weft-directory", program("weft-directory").to_str().unwrap());
        let environment = fs::read_to_string(self.plan().join("hosts").join(name).join("etc/weft/directory.env")).unwrap();
        let values =
            environment.lines().filter_map(|line| line.split_once('=')).map(|(key, value)| format!("export {key}='{value}'\n"));
        let before = values.collect::<String>() + "export WEFT_DIRECTORY=/var/lib/weft-directory";
        self.start(name, &before, &command);
    }

    /// The agent, after what its unit's drop-in runs before.
    pub fn start_agent(&mut self, name: &str) {
        let drop_in = self.plan().join("hosts").join(name).join("etc/systemd/system/weft-agent.service.d/50-deploy.conf");
        let drop_in = fs::read_to_string(drop_in).unwrap_or_default();
        let before: Vec<&str> = drop_in.lines().filter_map(|line| line.strip_prefix("ExecStartPre=")).collect();
        // As systemd makes it; that of this machine is left alone.
        let state = drop_in.contains("StateDirectory=weft").then_some("mount -t tmpfs tmpfs /var/lib\nmkdir /var/lib/weft\n");
        let before = state.unwrap_or_default().to_owned() + &before.join("\n");
        self.start(name, &before, &format!("{} --config /etc/weft/agent.toml", env!("CARGO_BIN_EXE_weft-agent")));
    }

    /// Imports the mappings.
    pub fn import(&self, from: &str) {
        let (mappings, dir) = (self.plan().join("directory/mappings.jsonl"), self.plan().join("directory"));
        let import = ["import", "--timeout", "20s", "--dir", dir.to_str().unwrap(), mappings.to_str().unwrap()];
        wait("mappings are imported", || {
            let output = self.network.command(from, program("weft-directory").to_str().unwrap()).args(import).output().unwrap();
            output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
        });
    }

    /// Waits until these machines do not differ from the plan.
    pub fn is_as_planned(&self, machines: &[&str]) {
        for name in machines {
            wait(name, || match self.check(name) {
                (Some(0), _) => Ok(()),
                (_, lines) => Err(lines),
            });
        }
    }

    /// A command on a machine, in the namespaces of its daemon.
    pub fn on(&self, name: &str, program: &Path, arguments: &[&str]) -> Output {
        self.command(name, program).args(arguments).output().unwrap()
    }

    /// The same, to be completed.
    pub fn command(&self, name: &str, program: &Path) -> Command {
        let pid = self.running[name].pid.to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--mount", "--net", "--pid", "--root", "--wd"]).arg(program);
        command
    }

    /// Runs the playbook on a machine, for it alone; what it prints.
    pub fn play(&self, name: &str) -> String {
        self.play_for(name, name)
    }

    /// Runs the playbook on a machine, for a host of the playbook; what it prints.
    pub fn play_for(&self, name: &str, limit: &str) -> String {
        let (inventory, playbook) = (self.plan().join("inventory.yml"), self.plan().join("site.yml"));
        let paths = [inventory.to_str().unwrap(), playbook.to_str().unwrap()];
        let python = "ansible_python_interpreter={{ ansible_playbook_python }}";
        // Ansible knows localhost without an inventory, but can be limited only to what is in one.
        let arguments =
            ["-i", paths[0], "-i", "localhost,", "--connection", "local", "--limit", limit, "--extra-vars", python, paths[1]];
        let output = self.on(name, Path::new("ansible-playbook"), &arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {text}");
        text
    }

    /// Names of the metrics that a machine serves.
    pub fn metrics(&self, name: &str, port: u16) -> Vec<String> {
        let read = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        };
        let text = self.network.within(name, || read().unwrap());
        let lines = text.lines().filter(|line| line.starts_with("weft_"));
        lines.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
    }

    /// `weft deploy check` on a machine: its exit code and lines.
    pub fn check(&self, name: &str) -> (Option<i32>, String) {
        let (inventory, dir) = (self.inventory().display().to_string(), self.plan().display().to_string());
        let arguments = ["deploy", "check", &inventory, "--dir", &dir, "--host", name];
        let output = self.on(name, &program("weft-directory"), &arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    }
}

/// Repeats until it is true.
pub fn wait(what: &str, mut is_so: impl FnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(why) = is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: {why}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Whether this machine has systemd; CI must.
pub fn has_systemd() -> bool {
    let has = Path::new("/lib/systemd/systemd").exists();
    assert!(has || std::env::var_os("CI").is_none(), "no systemd: scripts/setup-lab.sh");
    if !has {
        eprintln!("SKIPPED: it takes systemd: scripts/setup-lab.sh");
    }
    has
}

/// Whether this machine has Ansible; CI has not.
pub fn has_ansible() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = std::env::split_paths(&path).any(|it| it.join("ansible-playbook").is_file());
    if !has {
        eprintln!("SKIPPED: it takes ansible-playbook");
    }
    has
}
