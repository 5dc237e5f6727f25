//! Open vSwitch in the namespace of a switch. Its user-space datapath is used, since many kernels lack its module.
//!
//! ```text
//!   FOLDER/     conf.db, db.sock, db.ctl, ovs.ctl, pid files, logs
//! ```

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use socket2::{Domain, Socket, Type};

use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::Node;
use crate::programs::without_inherited_files;

/// Checks that it is installed, before anything is made.
///
/// # Errors
/// [`LabError::Missing`].
pub(crate) fn check() -> Result<()> {
    for program in [SERVER, SWITCH] {
        if !Path::new(program).is_file() {
            return Err(LabError::Missing { program: program.to_owned(), package: PACKAGE });
        }
    }
    Ok(())
}

/// The words of a first configuration: commands of `ovs-vsctl`.
#[derive(Default)]
pub(crate) struct Configuration {
    words: Vec<String>,
}

impl Configuration {
    /// Adds a command, whose words contain no spaces.
    pub(crate) fn add(&mut self, command: &str) {
        if !self.words.is_empty() {
            self.words.push("--".to_owned());
        }
        self.words.extend(command.split(' ').map(str::to_owned));
    }

    /// Adds a port, with settings of the port and of its interface. Its queue stays: Open vSwitch removes those of ports without this QoS.
    pub(crate) fn add_port(&mut self, device: &str, of_port: &str, of_interface: &str) {
        self.add(&format!("--id=@{device} create qos type=linux-noop"));
        let settings = |text: &str| if text.is_empty() { String::new() } else { format!(" {text}") };
        self.add(&format!("add-port br0 {device}{}", settings(of_port)));
        self.add(&format!("set port {device} qos=@{device}"));
        if !of_interface.is_empty() {
            self.add(&format!("set interface {device} {of_interface}"));
        }
    }
}

/// The switch of a node.
pub(crate) struct Switch<'a> {
    folder: PathBuf,
    node: &'a Node,
}

impl<'a> Switch<'a> {
    /// With its files in a folder.
    pub(crate) const fn new(folder: PathBuf, node: &'a Node) -> Self {
        Self { folder, node }
    }

    /// The path of one of its files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Creates its folder.
    pub(crate) fn create(&self) -> Result<()> {
        fs::create_dir_all(&self.folder).map_err(|e| LabError::io("make", &self.folder, e))
    }

    /// Starts it in the node's namespace, with the bridge `br0`; returns when it has applied its configuration, of which `last` is a setting of the bridge.
    pub(crate) fn start(&self, configuration: Configuration, last: &str) -> Result<()> {
        self.create()?;
        let db = self.database();
        let of_bridge = ["set", "bridge", "br0", last].map(str::to_owned);
        netns::within(&self.node.namespace, || {
            self.run("ovsdb-tool", &["create".to_owned(), self.text("conf.db"), SCHEMA.to_owned()])?;
            self.run(SERVER, &[vec![self.text("conf.db"), format!("--remote=p{db}")], self.daemon("db")].concat())?;
            let init = ["--no-wait", "init", "--"].map(str::to_owned).to_vec();
            self.run("ovs-vsctl", &[vec![format!("--db={db}")], init, configuration.words].concat())?;
            self.run(SWITCH, &[vec![db.clone()], self.daemon("ovs")].concat())?;
            // Returns when the configuration has been applied.
            self.run("ovs-vsctl", &[vec![format!("--db={db}"), "--timeout=20".to_owned()], of_bridge.to_vec()].concat())
        })
    }

    /// What `ovs-vsctl` answers; `None` if the switch does not answer.
    pub(crate) fn configured(&self, arguments: &[&str]) -> Option<String> {
        let db = format!("--db={}", self.database());
        self.output("ovs-vsctl", &[&[db.as_str(), "--timeout=2"], arguments].concat()).ok()
    }

    /// What `ovs-appctl` answers.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String> {
        let control = self.text("ovs.ctl");
        self.output("ovs-appctl", &[&["-t", control.as_str()], arguments].concat())
    }

    fn database(&self) -> String {
        format!("unix:{}", self.text("db.sock"))
    }

    fn daemon(&self, name: &str) -> Vec<String> {
        let option = |key: &str, suffix: &str| format!("--{key}={}", self.text(&format!("{name}.{suffix}")));
        let files = [option("unixctl", "ctl"), option("pidfile", "pid"), option("log-file", "log")];
        files.into_iter().chain(["--detach", "--no-chdir"].map(str::to_owned)).collect()
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new(program).args(arguments).env("OVS_RUNDIR", &self.folder).stdin(Stdio::null()).output();
        let output = output.map_err(|e| netns::not_run(program, PACKAGE, e))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(LabError::Program { program: program.to_owned(), place: self.node.name.clone(), message })
    }

    fn run(&self, program: &str, arguments: &[String]) -> Result<()> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        for key in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(key, &self.folder);
        }
        // The daemons keep their standard error open, so it is a file and no pipe.
        let log = self.path("start.log");
        let file = fs::File::create(&log).map_err(|e| LabError::io("write", &log, e))?;
        let status = without_inherited_files(command.stderr(file)).status().map_err(|e| netns::not_run(program, PACKAGE, e))?;
        if status.success() {
            return Ok(());
        }
        let message = fs::read_to_string(&log).unwrap_or_default().trim().to_owned();
        Err(LabError::Program { program: program.to_owned(), place: self.node.name.clone(), message })
    }
}

/// Switches checksum offload of a device off, in the namespace of the thread: a switch in user space forwards frames as they are, and no device after it adds
/// checksums.
pub(crate) fn write_checksums(device: &str, place: &str) -> Result<()> {
    let fail = |cause: std::io::Error| LabError::Kernel { what: "switch off checksum offload", place: place.to_owned(), cause };
    let name = CString::new(device).expect("a device's name");
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).map_err(fail)?;
    let mut value = EthtoolValue { command: ETHTOOL_STXCSUM, data: 0 };
    // SAFETY: zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names a device and holds a pointer to a value that lives through the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut request) } {
        0 => Ok(()),
        _ => Err(fail(std::io::Error::last_os_error())),
    }
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Of linux/ethtool.h.
const ETHTOOL_STXCSUM: u32 = 0x17;
const SERVER: &str = "/usr/sbin/ovsdb-server";
const SWITCH: &str = "/usr/sbin/ovs-vswitchd";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const PACKAGE: &str = "openvswitch-switch";
