//! The kernel's state of a TCP connection: `getsockopt(TCP_INFO)`.

use std::os::fd::AsRawFd as _;

use socket2::Socket;

/// The sender's view of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Reordering events that the sender detected.
    pub reorderings: u32,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Smoothed round trip; 0 before the first.
    pub srtt_us: u32,
    /// The least round trip.
    pub min_rtt_us: u32,
}

/// Reads it; `None` if that fails.
pub(super) fn tcp_info(socket: &Socket) -> Option<TcpInfo> {
    let mut bytes = [0u8; SIZE];
    let mut len = SIZE as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which the array has, and the descriptor is open as long as `socket` is borrowed.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &raw mut len)
    };
    // A field that the kernel does not know is 0.
    (result == 0).then(|| parse(&bytes))
}

/// Offsets of `struct tcp_info` (linux/tcp.h).
fn parse(bytes: &[u8; SIZE]) -> TcpInfo {
    let at = |offset: usize| u32::from_ne_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]]);
    let min_rtt_us = at(148);
    TcpInfo {
        srtt_us: at(68),
        cwnd_segments: at(80),
        retransmits: at(100),
        // The kernel has no minimum before the first round trip.
        min_rtt_us: if min_rtt_us == u32::MAX { 0 } else { min_rtt_us },
        reorderings: at(220),
    }
}

const SIZE: usize = 232;
