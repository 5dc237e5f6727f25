//! An eBPF program of three instructions at the ingress of switches' ports, loaded by bpf(2) itself: no compiler, no libbpf.
//!
//! ```text
//!   bpf_set_hash_invalid(skb); return TC_ACT_UNSPEC
//! ```
//! A packet leaves a host with the hash of its socket, veth preserves it, and the kernel uses such a hash as it is to select a next hop: the switch's seed and
//! the packet's ports are ignored, all switches select alike, and a socket changes its path at every timeout. Without the hash each switch computes its own from
//! addresses, ports and its seed.
//!
//! It is a filter of `clsact` before those of agents (priority 1), and is removed with its device. tcx, the newer hook, waits for a grace period of RCU with the lock of
//! all network devices held, 10 to 20 ms when a program is attached and again when the device is removed: 72 of the 80 s in which a fat-tree of 1,024 hosts came up, and
//! as long after its end, in which the kernel created no other device.

use std::mem::size_of;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;

use crate::error::{LabError, Result};
use crate::netlink::Request;
use crate::netns;
use crate::plan::{Node, Plan, Role};
use crate::rtnl::{self, Failure};

/// A loaded program.
pub(crate) struct Program {
    fd: OwnedFd,
}

impl Program {
    /// Clears the hash of incoming packets.
    pub(crate) fn forget_hash() -> Result<Self> {
        Self::load(c"weft_hash", &[CALL_SET_HASH_INVALID, return_value(TC_ACT_UNSPEC), EXIT])
    }

    /// Attaches it to devices of the namespace that the thread is in.
    pub(crate) fn attach<'a>(&self, devices: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let devices: Vec<&str> = devices.into_iter().collect();
        if devices.is_empty() {
            return Ok(());
        }
        let index = |device: &&str| if_nametoindex(*device).map_err(|e| netns::kernel("attach an eBPF program", device, e));
        let indices: Vec<u32> = devices.iter().map(index).collect::<Result<_>>()?;
        let hooks = indices.iter().map(|&index| hook(index));
        let filters = indices.iter().map(|&index| self.filter(index));
        rtnl::send(hooks.chain(filters).collect()).map_err(|Failure { line, cause }| {
            let place = line.map_or("a switch", |line| devices[line % devices.len()]).to_owned();
            LabError::Kernel { what: "attach an eBPF program", place, cause }
        })
    }

    /// RTM_NEWTFILTER: this program, before all others, at the ingress of a device.
    fn filter(&self, index: u32) -> Request {
        let options = Request::nested(&[])
            .attribute(TCA_BPF_FD, &self.fd.as_raw_fd().to_ne_bytes())
            .attribute(TCA_BPF_NAME, b"weft_hash\0")
            .attribute(TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes());
        let protocol = u32::from((libc::ETH_P_ALL as u16).to_be());
        Request::new(
            RTM_NEWTFILTER,
            NLM_F_CREATE | NLM_F_EXCL,
            &tc_header(index, 0, TC_H_CLSACT_INGRESS, PRIORITY << 16 | protocol),
        )
        .attribute(TCA_KIND, b"bpf\0")
        .attribute(TCA_OPTIONS, options.payload())
    }

    fn load(name: &std::ffi::CStr, instructions: &[u64]) -> Result<Self> {
        let mut load = Load {
            kind: SCHED_CLS,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            ..Load::default()
        };
        load.name[..name.count_bytes()].copy_from_slice(name.to_bytes());
        let fd = bpf(BPF_PROG_LOAD, &load).map_err(|e| netns::kernel("load an eBPF program", "the kernel", e))?;
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }
}

/// Clears the hashes of packets at the ports of a switch, in whose namespace the thread is. Without agents that encapsulate, packets between switches have none: those that
/// lead to hosts and to the outside suffice. The kernel searches a list of all such ports of the system for each one, so that fewer are more than proportionally faster.
pub(crate) fn forget_hashes(program: &Program, plan: &Plan, switch: &Node) -> Result<()> {
    let has_agents = !plan.overlay.is_none();
    let ports = switch.ports.iter().filter(|port| has_agents || plan.nodes[port.peer.node].role != Role::Switch);
    program.attach(ports.map(|port| port.name.as_str()))
}

/// RTM_NEWQDISC: the place of filters of a device; nothing if it exists already.
fn hook(index: u32) -> Request {
    Request::new(RTM_NEWQDISC, NLM_F_CREATE, &tc_header(index, TC_H_CLSACT_HANDLE, TC_H_CLSACT, 0))
        .attribute(TCA_KIND, b"clsact\0")
}

/// struct tcmsg: family, padding, index, handle, parent, info.
fn tc_header(index: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, index, handle, parent, info].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect()
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> std::result::Result<libc::c_long, Errno> {
    // SAFETY: `attributes` is one of the kernel's own layouts for that command, fully initialised; its size is passed, and what it points to
    // outlives the call, which keeps no pointer.
    Errno::result(unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) })
}

/// `union bpf_attr` of `BPF_PROG_LOAD`, to the last field that is used.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    expected_attach_type: u32,
}

/// `struct bpf_insn`: code in the lowest byte, registers, offset, and the immediate in the upper half.
const CALL_SET_HASH_INVALID: u64 = 0x85 | 41 << 32;
const EXIT: u64 = 0x95;

/// `r0 = value`
const fn return_value(value: i32) -> u64 {
    0xb7 | (value as u32 as u64) << 32
}

const BPF_PROG_LOAD: libc::c_long = 5;
const SCHED_CLS: u32 = 3;
/// Continue with the next filter, or as without one.
const TC_ACT_UNSPEC: i32 = -1;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTFILTER: u16 = 44;
const TC_H_CLSACT: u32 = 0xFFFF_FFF1;
const TC_H_CLSACT_HANDLE: u32 = 0xFFFF_0000;
const TC_H_CLSACT_INGRESS: u32 = 0xFFFF_FFF2;
/// That of agents' filters is higher, so they follow.
const PRIORITY: u32 = 1;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
