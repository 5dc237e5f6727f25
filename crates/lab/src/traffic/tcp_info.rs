//! The kernel's state of a TCP connection: `getsockopt(TCP_INFO)`.

use std::os::fd::AsRawFd as _;

use socket2::Socket;

use super::mptcp;

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

impl TcpInfo {
    /// Of all subflows: the sum of their counters and windows, the round trip of the first, the least of all.
    pub(super) fn total(subflows: &[Self]) -> Option<Self> {
        let first = *subflows.first()?;
        Some(subflows[1..].iter().fold(first, |sum, it| Self {
            retransmits: sum.retransmits + it.retransmits,
            reorderings: sum.reorderings + it.reorderings,
            cwnd_segments: sum.cwnd_segments + it.cwnd_segments,
            srtt_us: sum.srtt_us,
            min_rtt_us: [sum.min_rtt_us, it.min_rtt_us].into_iter().filter(|&us| us > 0).min().unwrap_or(0),
        }))
    }
}

/// Reads it, of each subflow if the socket is one of MPTCP; empty if that fails.
pub(super) fn tcp_infos(socket: &Socket, is_mptcp: bool) -> Vec<TcpInfo> {
    if is_mptcp {
        return mptcp::subflow_infos(socket).iter().map(parse).collect();
    }
    tcp_info(socket).into_iter().collect()
}

fn tcp_info(socket: &Socket) -> Option<TcpInfo> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subflows_are_summed() {
        let of = |retransmits, min_rtt_us| TcpInfo {
            retransmits,
            cwnd_segments: 10,
            srtt_us: 5 * min_rtt_us,
            min_rtt_us,
            ..TcpInfo::default()
        };
        let total = TcpInfo::total(&[of(1, 300), of(2, 0), of(4, 200)]).expect("three");
        assert_eq!(total, TcpInfo { retransmits: 7, reorderings: 0, cwnd_segments: 30, srtt_us: 1500, min_rtt_us: 200 });
        assert_eq!(TcpInfo::total(&[]), None);
    }
}
