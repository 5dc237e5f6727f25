//! Many datagrams with one system call: recvmmsg and sendmmsg, with UDP_GRO and UDP_SEGMENT, which carry several datagrams of one size as one.
//!
//! ```text
//!   Incoming    64 buffers, each one datagram or (GRO) a row of datagrams of one size from one address
//!   Outgoing    rows of answers of one size to one address; each row is one message of sendmmsg
//! ```

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, RawFd};
use std::time::{Duration, SystemTime};

use nix::sys::socket::{setsockopt, sockopt};

/// Messages of one system call.
pub const BATCH: usize = 64;

/// Bytes of a message: what GRO may put together.
const ROOM: usize = 65_536;

/// Datagrams of one message that is sent (the kernel's limit), and their bytes.
const SEGMENTS: usize = 64;
const SEGMENT_BYTES: usize = 60_000;

/// Room for one control message of an integer.
const CONTROL: usize = 64;

/// Buffers to receive into.
pub struct Incoming {
    bytes: Vec<u8>,
    names: Box<[libc::sockaddr_storage; BATCH]>,
    controls: Box<[[u64; CONTROL / 8]; BATCH]>,
    messages: Box<[libc::mmsghdr; BATCH]>,
    pieces: Box<[libc::iovec; BATCH]>,
    received: usize,
}

// SAFETY: the pointers inside lead to the boxes of the same value only.
unsafe impl Send for Incoming {}

impl Incoming {
    /// Empty buffers.
    pub fn new() -> Self {
        // SAFETY: these are plain C structures, for which all zeros are valid.
        let (names, messages, pieces) = unsafe { (zeroed(), zeroed(), zeroed()) };
        Self {
            bytes: vec![0; BATCH * ROOM],
            names: Box::new(names),
            controls: Box::new([[0; CONTROL / 8]; BATCH]),
            messages: Box::new(messages),
            pieces: Box::new(pieces),
            received: 0,
        }
    }

    /// Waits for one message (as long as the socket's time-out), and takes what else is there.
    pub fn receive(&mut self, socket: RawFd) -> io::Result<()> {
        self.received = 0;
        for at in 0..BATCH {
            self.pieces[at] = libc::iovec { iov_base: self.bytes[at * ROOM..].as_mut_ptr().cast(), iov_len: ROOM };
            let header = &mut self.messages[at].msg_hdr;
            header.msg_name = (&raw mut self.names[at]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            header.msg_iov = &raw mut self.pieces[at];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[at].as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
            header.msg_flags = 0;
        }
        // SAFETY: all pointers lead to buffers of the stated lengths that live as long as `self`.
        let count = unsafe {
            libc::recvmmsg(socket, self.messages.as_mut_ptr(), BATCH as u32, libc::MSG_WAITFORONE as _, std::ptr::null_mut())
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        self.received = count as usize;
        Ok(())
    }

    /// The datagrams received.
    pub fn datagrams<'a>(&'a self, out: &mut Vec<(SocketAddr, &'a [u8])>) {
        self.rows().for_each(|row| row.split(|datagram| out.push((row.from, datagram))));
    }

    /// The datagrams received, without those that `drops` names by how long they have waited and their bytes; how many these are. What has no timestamp is
    /// new ([`enable_timestamps`]).
    pub fn datagrams_unless<'a>(&'a self, drops: impl Fn(Duration, &[u8]) -> bool, out: &mut Vec<(SocketAddr, &'a [u8])>) -> u64 {
        let now = SystemTime::now();
        let mut dropped = 0;
        for row in self.rows() {
            let age = row.arrived.and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
            row.split(|datagram| {
                if drops(age, datagram) {
                    dropped += 1;
                } else {
                    out.push((row.from, datagram));
                }
            });
        }
        dropped
    }

    /// Whether nothing more waited when this was received.
    pub const fn has_emptied(&self) -> bool {
        self.received < BATCH
    }

    fn rows(&self) -> impl Iterator<Item = Arrived<'_>> {
        (0..self.received).filter_map(|at| {
            let from = address_of(&self.names[at])?;
            let length = self.messages[at].msg_len as usize;
            let (size, arrived) = read_control(&self.messages[at].msg_hdr);
            Some(Arrived { from, bytes: &self.bytes[at * ROOM..at * ROOM + length], size, arrived })
        })
    }
}

/// A message as it was received: one datagram, or a row of them.
struct Arrived<'a> {
    from: SocketAddr,
    bytes: &'a [u8],
    /// Bytes of each datagram of a row but the last.
    size: Option<usize>,
    /// When the kernel got it.
    arrived: Option<SystemTime>,
}

impl<'a> Arrived<'a> {
    fn split(&self, mut take: impl FnMut(&'a [u8])) {
        match self.size {
            Some(size) if size > 0 && size < self.bytes.len() => self.bytes.chunks(size).for_each(take),
            _ => take(self.bytes),
        }
    }
}

/// Answers on their way out.
pub struct Outgoing {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    segmenting: bool,
    /// Datagrams that the system did not take.
    pub failed: u64,
}

struct Row {
    to: SocketAddr,
    start: usize,
    length: usize,
    /// Bytes of each datagram but the last, which may be shorter.
    size: usize,
    count: usize,
    closed: bool,
}

impl Outgoing {
    /// Nothing to send yet. Without `segmenting` every datagram is a message of its own.
    pub fn new(segmenting: bool) -> Self {
        Self { bytes: Vec::with_capacity(BATCH * 1500), rows: Vec::with_capacity(BATCH), segmenting, failed: 0 }
    }

    /// Adds a datagram.
    pub fn push(&mut self, to: SocketAddr, bytes: &[u8]) {
        if let Some(row) = self.rows.last_mut()
            && self.segmenting
            && !row.closed
            && row.to == to
            && bytes.len() <= row.size
            && row.count < SEGMENTS
            && row.length + bytes.len() <= SEGMENT_BYTES
        {
            row.length += bytes.len();
            row.count += 1;
            row.closed = bytes.len() < row.size;
        } else {
            self.rows.push(Row { to, start: self.bytes.len(), length: bytes.len(), size: bytes.len(), count: 1, closed: false });
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Sends all that was added.
    pub fn flush(&mut self, socket: RawFd) {
        for first in (0..self.rows.len()).step_by(BATCH) {
            let last = (first + BATCH).min(self.rows.len());
            self.send(socket, first, last);
        }
        self.rows.clear();
        self.bytes.clear();
    }

    fn send(&mut self, socket: RawFd, first: usize, last: usize) {
        let mut names: [libc::sockaddr_storage; BATCH] = unsafe { zeroed() }; // SAFETY: plain C structures
        let mut controls = [[0_u64; CONTROL / 8]; BATCH];
        let mut pieces: [libc::iovec; BATCH] = unsafe { zeroed() }; // SAFETY: as above
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { zeroed() }; // SAFETY: as above
        for (at, row) in self.rows[first..last].iter().enumerate() {
            pieces[at] = libc::iovec { iov_base: self.bytes[row.start..].as_ptr().cast_mut().cast(), iov_len: row.length };
            let header = &mut messages[at].msg_hdr;
            header.msg_namelen = write_address(row.to, &mut names[at]);
            header.msg_name = (&raw mut names[at]).cast();
            header.msg_iov = &raw mut pieces[at];
            header.msg_iovlen = 1;
            if row.count > 1 {
                write_segment_size(header, &mut controls[at], row.size as u16);
            }
        }
        let (mut sent, count) = (0, last - first);
        while sent < count {
            // SAFETY: the pointers lead to the arrays above and to `self.bytes`, which outlive the call.
            let taken = unsafe { libc::sendmmsg(socket, messages[sent..].as_mut_ptr(), (count - sent) as u32, 0) };
            if taken > 0 {
                sent += taken as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            // The first of the rest cannot be sent; a row that the device cannot cut goes out datagram by datagram.
            let row = &self.rows[first + sent];
            if row.count > 1 && matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE)) {
                self.failed += send_one_by_one(socket, row, &self.bytes[row.start..row.start + row.length]);
                self.segmenting = false;
            } else {
                self.failed += row.count as u64;
            }
            sent += 1;
        }
    }
}

/// Asks the kernel to hand over rows of datagrams. An old kernel that cannot is no harm.
pub fn enable_gro(socket: &impl AsFd) {
    let _ = setsockopt(socket, sockopt::UdpGroSegment, &true);
}

/// How many could not be sent.
fn send_one_by_one(socket: RawFd, row: &Row, bytes: &[u8]) -> u64 {
    let mut name: libc::sockaddr_storage = unsafe { zeroed() }; // SAFETY: a plain C structure
    let length = write_address(row.to, &mut name);
    let send = |bytes: &[u8]| {
        // SAFETY: buffer and address live through the call.
        unsafe { libc::sendto(socket, bytes.as_ptr().cast(), bytes.len(), 0, (&raw const name).cast(), length) }
    };
    bytes.chunks(row.size).filter(|bytes| send(bytes) < 0).count() as u64
}

/// The size of the datagrams in a row, and when the message arrived.
fn read_control(header: &libc::msghdr) -> (Option<usize>, Option<SystemTime>) {
    let (mut size, mut arrived) = (None, None);
    // SAFETY: the kernel wrote the control messages within the stated length.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = control.as_ref() {
            match (message.cmsg_level, message.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    size = usize::try_from(libc::CMSG_DATA(control).cast::<libc::c_int>().read_unaligned()).ok();
                }
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                    let at = libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned();
                    let since = u64::try_from(at.tv_sec).ok().zip(u32::try_from(at.tv_nsec).ok());
                    arrived = since.and_then(|(s, ns)| SystemTime::UNIX_EPOCH.checked_add(Duration::new(s, ns)));
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    (size, arrived)
}

/// Lets the kernel say when each message arrived.
pub fn enable_timestamps(socket: &impl AsFd) {
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
}

fn write_segment_size(header: &mut libc::msghdr, control: &mut [u64; CONTROL / 8], size: u16) {
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the buffer has room for one control message of two bytes, and is aligned for its header.
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as _;
        let message = libc::CMSG_FIRSTHDR(header);
        (*message).cmsg_level = libc::SOL_UDP;
        (*message).cmsg_type = libc::UDP_SEGMENT;
        (*message).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(message).cast::<u16>().write_unaligned(size);
    }
}

fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what the bytes are.
            let name = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(name.sin6_port), 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Writes an address; its length.
fn write_address(address: SocketAddr, storage: &mut libc::sockaddr_storage) -> u32 {
    match address {
        SocketAddr::V4(address) => {
            // SAFETY: the storage has room for every address.
            let name = unsafe { &mut *(&raw mut *storage).cast::<libc::sockaddr_in>() };
            name.sin_family = libc::AF_INET as u16;
            name.sin_port = address.port().to_be();
            name.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
            size_of::<libc::sockaddr_in>() as u32
        }
        SocketAddr::V6(address) => {
            // SAFETY: as above.
            let name = unsafe { &mut *(&raw mut *storage).cast::<libc::sockaddr_in6>() };
            name.sin6_family = libc::AF_INET6 as u16;
            name.sin6_port = address.port().to_be();
            name.sin6_addr.s6_addr = address.ip().octets();
            name.sin6_scope_id = address.scope_id();
            size_of::<libc::sockaddr_in6>() as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use super::*;

    /// Sends datagrams of these sizes from one socket to another; what arrives.
    fn carry(ip: &str, sizes: &[usize], segmenting: bool, gro: bool) -> Vec<Vec<u8>> {
        let (from, to) = (UdpSocket::bind((ip, 0)).unwrap(), UdpSocket::bind((ip, 0)).unwrap());
        to.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        if gro {
            enable_gro(&to);
        }
        let mut outgoing = Outgoing::new(segmenting);
        for (at, &size) in sizes.iter().enumerate() {
            outgoing.push(to.local_addr().unwrap(), &vec![at as u8; size]);
        }
        outgoing.flush(from.as_raw_fd());
        assert_eq!(outgoing.failed, 0);
        let mut incoming = Incoming::new();
        let mut arrived = Vec::new();
        while incoming.receive(to.as_raw_fd()).is_ok() {
            let mut datagrams = Vec::new();
            incoming.datagrams(&mut datagrams);
            assert!(datagrams.iter().all(|(sender, _)| *sender == from.local_addr().unwrap()));
            arrived.extend(datagrams.iter().map(|(_, bytes)| bytes.to_vec()));
            if arrived.len() == sizes.len() {
                break;
            }
        }
        arrived
    }

    #[test]
    fn what_has_waited_too_long_is_dropped_if_it_may_be() {
        let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        to.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        enable_gro(&to);
        enable_timestamps(&to);
        // The kernel begins to stamp a moment after the first socket asks for it; until then a datagram is stamped when it is read.
        std::thread::sleep(Duration::from_millis(200));
        let send =
            |kinds: &[u8]| kinds.iter().for_each(|&kind| assert_eq!(from.send_to(&[kind], to.local_addr().unwrap()).unwrap(), 1));
        let receive = || {
            let (mut incoming, mut datagrams) = (Incoming::new(), Vec::new());
            incoming.receive(to.as_raw_fd()).unwrap();
            let dropped =
                incoming.datagrams_unless(|age, datagram| age > Duration::from_millis(50) && datagram == [1], &mut datagrams);
            (dropped, datagrams.iter().map(|(_, bytes)| bytes[0]).collect::<Vec<_>>(), incoming.has_emptied())
        };
        send(&[1, 2, 1]);
        assert_eq!(receive(), (0, vec![1, 2, 1], true));
        send(&[1, 2, 1]);
        std::thread::sleep(Duration::from_millis(80));
        send(&[1]);
        assert_eq!(receive(), (2, vec![2, 1], true), "old lookups go, the rest stays");
    }

    #[test]
    fn rows_arrive_as_the_datagrams_that_they_are() {
        let sizes = [100, 100, 100, 60, 100, 1400, 1400, 20, 20, 20, 1, 1];
        let many = [77; 200];
        for ip in ["127.0.0.1", "::1"] {
            for (segmenting, gro) in [(false, false), (true, false), (false, true), (true, true)] {
                for sizes in [&sizes[..], &many[..]] {
                    let expected: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(at, &size)| vec![at as u8; size]).collect();
                    assert_eq!(carry(ip, sizes, segmenting, gro), expected, "{ip} {segmenting} {gro}");
                }
            }
        }
    }
}
