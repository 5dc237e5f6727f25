//! An eBPF program of three instructions at the ingress of every switch's port, loaded by bpf(2) itself: no compiler, no libbpf.
//!
//! ```text
//!   bpf_set_hash_invalid(skb); return TCX_NEXT
//! ```
//! A packet leaves a host with the hash of its socket, veth preserves it, and the kernel uses such a hash as it is to select a next hop: the switch's seed and
//! the packet's ports are ignored, all switches select alike, and a socket changes its path at every timeout. Without the hash each switch computes its own from
//! addresses, ports and its seed.
//!
//! It is attached by tcx, before programs of `tc filter`, and is removed with its device.

use std::mem::size_of;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;

use crate::error::Result;
use crate::netns;
use crate::plan::Node;

/// A loaded program.
pub(crate) struct Program {
    fd: OwnedFd,
}

impl Program {
    /// Clears the hash of incoming packets.
    pub(crate) fn forget_hash() -> Result<Self> {
        Self::load(c"weft_hash", &[CALL_SET_HASH_INVALID, return_value(TCX_NEXT), EXIT])
    }

    /// Attaches it to a device of the namespace that the thread is in.
    pub(crate) fn attach(&self, device: &str) -> Result<()> {
        let attach = |target_ifindex| {
            let attach_bpf_fd = self.fd.as_raw_fd() as u32;
            bpf(BPF_PROG_ATTACH, &Attach { target_ifindex, attach_bpf_fd, attach_type: TCX_INGRESS, ..Attach::default() })
        };
        let attached = if_nametoindex(device).and_then(attach);
        attached.map(drop).map_err(|e| netns::kernel("attach an eBPF program", device, e))
    }

    fn load(name: &std::ffi::CStr, instructions: &[u64]) -> Result<Self> {
        let mut load = Load {
            kind: SCHED_CLS,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            expected_attach_type: TCX_INGRESS,
            ..Load::default()
        };
        load.name[..name.count_bytes()].copy_from_slice(name.to_bytes());
        let fd = bpf(BPF_PROG_LOAD, &load).map_err(|e| netns::kernel("load an eBPF program", "the kernel", e))?;
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }
}

/// Clears the hashes of packets at all ports of a switch, in whose namespace the thread is.
pub(crate) fn forget_hashes(program: &Program, switch: &Node) -> Result<()> {
    switch.ports.iter().try_for_each(|port| program.attach(&port.name))
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

/// `union bpf_attr` of `BPF_PROG_ATTACH`.
#[repr(C)]
#[derive(Default)]
struct Attach {
    target_ifindex: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
    replace_bpf_fd: u32,
    relative_fd: u32,
    expected_revision: u64,
}

/// `struct bpf_insn`: code in the lowest byte, registers, offset, and the immediate in the upper half.
const CALL_SET_HASH_INVALID: u64 = 0x85 | 41 << 32;
const EXIT: u64 = 0x95;

/// `r0 = value`
const fn return_value(value: i32) -> u64 {
    0xb7 | (value as u32 as u64) << 32
}

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_ATTACH: libc::c_long = 8;
const SCHED_CLS: u32 = 3;
const TCX_INGRESS: u32 = 46;
/// Continue with the next program, or as without one.
const TCX_NEXT: i32 = -1;
