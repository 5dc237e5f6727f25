//! Many datagrams a system call, over one connected UDP socket.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, Socket, Type};

use crate::server::packets::enable_gro;

/// Datagrams of one system call at most.
pub const BATCH: usize = 64;

/// A connected UDP socket that does not block.
#[derive(Debug)]
pub struct Lane {
    socket: UdpSocket,
}

impl Lane {
    /// A socket to a server, with buffers for bursts.
    pub fn new(to: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, None)?;
        socket.set_recv_buffer_size(BUFFER)?;
        socket.set_send_buffer_size(BUFFER)?;
        socket.connect(&to.into())?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: socket.into() })
    }

    /// A socket to a server that takes rows of answers of one size as one message (UDP_GRO).
    pub fn with_rows(to: SocketAddr) -> io::Result<Self> {
        let lane = Self::new(to)?;
        enable_gro(&lane.socket);
        Ok(lane)
    }

    /// For [`Incoming`](crate::server::packets::Incoming) and [`Outgoing`](crate::server::packets::Outgoing).
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Sends datagrams; how many the kernel took.
    pub fn send<'a>(&self, datagrams: impl Iterator<Item = &'a [u8]>) -> usize {
        let mut parts = [EMPTY_PART; BATCH];
        let mut count = 0;
        for (part, datagram) in parts.iter_mut().zip(datagrams) {
            *part = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
            count += 1;
        }
        let mut headers = headers(&mut parts);
        // SAFETY: the first `count` headers point to parts that point to borrowed bytes, which the kernel only reads.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
        usize::try_from(sent).unwrap_or(0)
    }

    /// Receives datagrams, each into a slot of `slot` bytes of `into`, one after the other; their lengths.
    pub fn receive(&self, into: &mut [u8], slot: usize, lengths: &mut [u16; BATCH]) -> usize {
        let mut parts = [EMPTY_PART; BATCH];
        let mut count = 0;
        for (part, slot) in parts.iter_mut().zip(into.chunks_exact_mut(slot)) {
            *part = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            count += 1;
        }
        let mut headers = headers(&mut parts);
        let none = std::ptr::null_mut();
        // SAFETY: the first `count` headers point to parts that point to disjoint borrowed slots.
        let got = unsafe { libc::recvmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT, none) };
        let got = usize::try_from(got).unwrap_or(0);
        for (length, header) in lengths.iter_mut().zip(&headers[..got]) {
            // A datagram that was cut off is longer than any answer should be.
            let cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            *length = if cut { 0 } else { u16::try_from(header.msg_len).unwrap_or(0) };
        }
        got
    }
}

fn headers(parts: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    // SAFETY: all zeros are a valid header: no address, no parts, no control data.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for (header, part) in headers.iter_mut().zip(parts) {
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
    }
    headers
}

const EMPTY_PART: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
/// Bytes of a socket's buffer; the system may grant less.
const BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_as_they_were_sent() {
        let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
        let lane = Lane::new(echo.local_addr().unwrap()).unwrap();
        let sent: Vec<Vec<u8>> = (1..=100u8).map(|n| vec![n; usize::from(n)]).collect();
        assert_eq!(lane.send(sent.iter().map(Vec::as_slice)), BATCH);
        let mut buffer = [0; 200];
        for _ in 0..BATCH {
            let (length, from) = echo.recv_from(&mut buffer).unwrap();
            echo.send_to(&buffer[..length], from).unwrap();
        }
        let (mut got, mut into, mut lengths) = (0, vec![0; BATCH * 60], [0; BATCH]);
        while got < BATCH {
            let count = lane.receive(&mut into, 60, &mut lengths);
            for at in 0..count {
                let expected = if got < 60 { &sent[got][..] } else { &[] };
                assert_eq!(&into[at * 60..at * 60 + usize::from(lengths[at])], expected);
                got += 1;
            }
        }
    }
}
