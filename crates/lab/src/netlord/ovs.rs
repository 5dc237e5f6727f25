//! Open vSwitch for a core switch: an independent bridge without support for NetLord. Its user-space datapath is used, since many kernels lack its module.
//!
//! ```text
//!   /run/weft/labs/NAME/netlord/NODE-ovs/     conf.db, db.sock, ovs.ctl, pid files, logs
//! ```

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use socket2::{Domain, Socket, Type};

use crate::agents::{self, OverlayFiles, name_of};
use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::netlord::{Bridge, Fib};
use crate::plan::{Node, Plan};
use crate::programs::without_inherited_files;

/// Checks that it is installed, before anything is made.
///
/// # Errors
/// [`LabError::Missing`].
pub(super) fn check() -> Result<()> {
    for program in [SERVER, SWITCH] {
        if !Path::new(program).is_file() {
            return Err(LabError::Missing { program: program.to_owned(), package: "openvswitch-switch" });
        }
    }
    Ok(())
}

/// The folder of a switch.
fn folder(above: &Path, node: &Node) -> PathBuf {
    above.join(format!("{}-ovs", name_of(node)))
}

/// Starts it in the switch's namespace, and returns when it forwards.
pub(super) fn start(files: &OverlayFiles, node: &Node, bridge: &Bridge, fib: &Fib) -> Result<()> {
    let folder = folder(files.folder(), node);
    fs::create_dir_all(&folder).map_err(|e| LabError::io("make", &folder, e))?;
    let at = |name: &str| folder.join(name).display().to_string();
    let db = format!("unix:{}", at("db.sock"));
    netns::within(&node.namespace, || {
        let run = |program: &str, arguments: &[String]| run(program, arguments, &folder, node);
        run("ovsdb-tool", &["create".to_owned(), at("conf.db"), SCHEMA.to_owned()])?;
        let daemon = |name: &str| {
            let option = |key: &str, file: String| format!("--{key}={file}");
            vec![
                option("unixctl", at(&format!("{name}.ctl"))),
                option("pidfile", at(&format!("{name}.pid"))),
                option("log-file", at(&format!("{name}.log"))),
                "--detach".to_owned(),
                "--no-chdir".to_owned(),
            ]
        };
        run(SERVER, &[vec![at("conf.db"), format!("--remote=p{db}")], daemon("db")].concat())?;
        run("ovs-vsctl", &[vec![format!("--db={db}"), "--no-wait".to_owned()], configuration(node, bridge, fib)].concat())?;
        run(SWITCH, &[vec![db.clone()], daemon("ovs")].concat())?;
        // Returns when the configuration has been applied.
        run(
            "ovs-vsctl",
            &[
                format!("--db={db}"),
                "--timeout=20".to_owned(),
                "set".to_owned(),
                "bridge".to_owned(),
                "br0".to_owned(),
                "fail_mode=standalone".to_owned(),
            ],
        )
    })
}

fn configuration(node: &Node, bridge: &Bridge, fib: &Fib) -> Vec<String> {
    let mut words = vec!["init".to_owned()];
    let mut add = |line: String| {
        words.push("--".to_owned());
        words.extend(line.split(' ').map(str::to_owned));
    };
    add("add-br br0".to_owned());
    let (entries, ageing) = (fib.entries.max(10), fib.ageing_s);
    add(format!(
        "set bridge br0 datapath_type=netdev other_config:mac-table-size={entries} other_config:mac-aging-time={ageing}"
    ));
    for (port, of_bridge) in node.ports.iter().zip(&bridge.ports) {
        let vlans: Vec<String> = of_bridge.vlans.iter().map(u16::to_string).collect();
        add(format!("add-port br0 {} vlan_mode=trunk trunks={}", port.name, vlans.join(",")));
    }
    words
}

/// The addresses that a switch has learned, each with its VLAN.
///
/// # Errors
/// [`LabError`] if it does not answer.
pub fn learned(plan: &Plan, node: &Node) -> Result<Vec<(String, u16)>> {
    let folder = folder(&agents::folder(plan), node);
    let control = folder.join("ovs.ctl").display().to_string();
    let output = Command::new("ovs-appctl").args(["-t", &control, "fdb/show", "br0"]).output();
    let output = output.map_err(|e| netns::not_run("ovs-appctl", "openvswitch-switch", e))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // port VLAN MAC age, below a line of headings.
    let of = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        Some(((*words.get(2)?).to_owned(), words.get(1)?.parse().ok()?))
    };
    Ok(text.lines().filter_map(of).collect())
}

fn run(program: &str, arguments: &[String], folder: &Path, node: &Node) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    for key in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
        command.env(key, folder);
    }
    // The daemons keep their standard error open, so it is a file and no pipe.
    let log = folder.join("start.log");
    let file = fs::File::create(&log).map_err(|e| LabError::io("write", &log, e))?;
    let status =
        without_inherited_files(command.stderr(file)).status().map_err(|e| netns::not_run(program, "openvswitch-switch", e))?;
    if status.success() {
        return Ok(());
    }
    let message = fs::read_to_string(&log).unwrap_or_default().trim().to_owned();
    Err(LabError::Program { program: program.to_owned(), place: node.name.clone(), message })
}

/// Switches checksum offload of a device off, in the namespace of the thread: a switch in user space forwards frames as they are, and no device after it adds
/// checksums.
pub(super) fn write_checksums(device: &str, place: &str) -> Result<()> {
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
