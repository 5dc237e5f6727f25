//! Limits of the system that a lab would exceed, found before anything is made.
//!
//! A lab needs a mount and a network namespace per node, sockets in all of them during a run, processes where switches or hosts run daemons, and kernel memory. The limit of
//! neighbour entries is not among them, since a lab raises it ([`crate::neighbours`]), nor are those of inotify, which no program of a lab uses.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};

use crate::error::{LabError, Result};
use crate::plan::{Overlay, Plan, Routing};

/// A limit, what a lab needs of it, and what is left.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// What is limited.
    of: &'static str,
    needed: u64,
    /// `None`: unlimited, or unknown.
    left: Option<u64>,
    remedy: &'static str,
}

/// Fails if the system's limits are too low for a lab.
///
/// # Errors
/// [`LabError::Limit`], with the limit and the remedy.
pub(crate) fn check(plan: &Plan) -> Result<()> {
    limits(plan).iter().try_for_each(check_one)
}

fn check_one(limit: &Limit) -> Result<()> {
    let &Limit { of, needed, left, remedy } = limit;
    match left {
        Some(left) if needed > left => Err(LabError::Limit { of, needed, left, remedy }),
        _ => Ok(()),
    }
}

fn limits(plan: &Plan) -> [Limit; 5] {
    let nodes = plan.nodes.len() as u64;
    let mounted = fs::read_to_string("/proc/self/mountinfo").map_or(0, |text| text.lines().count() as u64);
    let namespaces = fs::read_dir("/run/netns").map_or(0, |names| names.count() as u64);
    let rest = |limit: &str, used: u64| Some(number(limit)?.saturating_sub(used));
    let processes = fs::read_to_string("/proc/loadavg").ok().and_then(|text| running(&text)).unwrap_or(0);
    [
        Limit {
            of: "network namespaces",
            needed: nodes,
            left: rest("/proc/sys/user/max_net_namespaces", namespaces),
            remedy: "raise it: `sysctl user.max_net_namespaces=N`; or use a smaller fabric",
        },
        Limit {
            of: "mounts",
            needed: nodes,
            left: rest("/proc/sys/fs/mount-max", mounted),
            remedy: "raise it: `sysctl fs.mount-max=N`; or use a smaller fabric",
        },
        Limit {
            of: "open files of a process",
            needed: nodes + FILES,
            left: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(_, hard)| hard),
            remedy: "raise the hard limit (`ulimit -Hn`, LimitNOFILE= of a service); or use a smaller fabric",
        },
        Limit {
            of: "processes and threads",
            needed: tasks(plan),
            left: rest("/proc/sys/kernel/pid_max", processes),
            remedy: "raise it: `sysctl kernel.pid_max=N`; or use `--routing static`, which needs no daemons",
        },
        Limit {
            of: "megabytes of memory",
            needed: memory(plan) >> 20,
            left: available().map(|bytes| bytes >> 20),
            remedy: "free some, end other labs (`weft lab down --all`), or use a smaller fabric",
        },
    ]
}

/// Processes of daemons and their threads, about.
fn tasks(plan: &Plan) -> u64 {
    let switches = plan.switches().count() as u64;
    let routing = match plan.routing {
        Routing::Static => 0,
        // zebra has threads of its own for the kernel and its clients; ospfd and bfdd follow.
        Routing::Frr => switches * 10,
        Routing::Openflow => switches * 8,
    };
    let agents = if matches!(plan.overlay, Overlay::None) { 0 } else { plan.nodes.len() as u64 * 4 };
    routing + agents
}

/// Memory of the kernel and of daemons, as measured on Linux 6.18, about.
fn memory(plan: &Plan) -> u64 {
    let ports: u64 = plan.nodes.iter().map(|node| node.ports.len() as u64).sum();
    let switches = plan.switches().count() as u64;
    let daemons = match plan.routing {
        Routing::Static => 0,
        Routing::Frr => switches * DAEMONS_BYTES,
        Routing::Openflow => switches * DAEMONS_BYTES,
    };
    let agents = if matches!(plan.overlay, Overlay::None) { 0 } else { plan.nodes.len() as u64 * AGENT_BYTES };
    plan.nodes.len() as u64 * NAMESPACE_BYTES + ports * PORT_BYTES + daemons + agents
}

/// Memory that could be used without swapping.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Tasks of the system: the number after the slash in the fourth column.
fn running(loadavg: &str) -> Option<u64> {
    loadavg.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

fn number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Descriptors besides one in each namespace.
const FILES: u64 = 512;
const NAMESPACE_BYTES: u64 = 300 << 10;
const PORT_BYTES: u64 = 40 << 10;
const DAEMONS_BYTES: u64 = 12 << 20;
const AGENT_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_named_with_its_remedy() {
        let limit = |left| Limit { of: "mounts", needed: 100, left, remedy: "raise it" };
        assert!(check_one(&limit(Some(100))).is_ok() && check_one(&limit(None)).is_ok());
        let error = check_one(&limit(Some(99))).expect_err("too low");
        assert_eq!(error.to_string(), "the lab needs 100 mounts, and the system permits 99 more");
        assert_eq!(error.help().as_deref(), Some("raise it"));
        assert_eq!(running("0.25 1.39 0.94 2/138 5121\n"), Some(138));
        assert_eq!(running("0.25"), None);
    }
}
