//! Queries of a namespace's kernel by rtnetlink, on a socket that stays in that namespace. A query takes microseconds, a program such as `ip`
//! milliseconds.
//!
//! ```text
//!    0               4       6       8              12              16
//!   +---------------+-------+-------+---------------+---------------+----------------------+------------------+
//!   | length        | type  | flags | number        | 0             | header of the family | attributes ...   |
//!   +---------------+-------+-------+---------------+---------------+----------------------+------------------+
//!   attribute: length of all 2, type 2, value, padded to 4
//! ```

use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;

use socket2::{Domain, Protocol, Socket, Type};

/// A socket to the kernel of the namespace in which it was opened.
pub(crate) struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
    number: u32,
}

/// A request under construction.
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A message of a type with the family's header.
    pub(crate) fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(header);
        Self(bytes)
    }

    /// A command of a generic family.
    pub(crate) fn generic(family: u16, command: u8, version: u8) -> Self {
        Self::new(family, 0, &[command, version, 0, 0])
    }

    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// The value of an attribute that has a header of its own and attributes: [`Self::payload`].
    pub(crate) fn nested(header: &[u8]) -> Self {
        Self::new(0, 0, header)
    }

    /// What follows the message's header.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.0[HEADER..]
    }

    /// The bytes of the message, with a number by which an error names it.
    pub(crate) fn finish(self, number: u32) -> Vec<u8> {
        let Self(mut bytes) = self;
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        bytes[8..12].copy_from_slice(&number.to_ne_bytes());
        bytes
    }

    /// Has the kernel acknowledge a finished message, and returns its number. Errors are reported in any case.
    pub(crate) fn acknowledge(message: &mut [u8]) -> u32 {
        let flags = u16::from_ne_bytes([message[6], message[7]]) | NLM_F_ACK;
        message[6..8].copy_from_slice(&flags.to_ne_bytes());
        u32::from_ne_bytes([message[8], message[9], message[10], message[11]])
    }
}

/// Acknowledgements and errors among the kernel's messages, with the number of the request.
pub(crate) fn acknowledgements(mut bytes: &[u8]) -> impl Iterator<Item = (u32, std::io::Result<()>)> {
    std::iter::from_fn(move || {
        loop {
            let (kind, number, body, after) = split(bytes)?;
            bytes = after;
            if kind == NLMSG_ERROR {
                return Some((number, acknowledged(body)));
            }
        }
    })
}

impl Netlink {
    /// Opens a socket in the namespace that the thread is in.
    pub(crate) fn open() -> std::io::Result<Self> {
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
        Ok(Self { socket, buffer: vec![0; 64 * 1024], number: 0 })
    }

    /// The same, for families that the kernel numbers at run time.
    pub(crate) fn open_generic() -> std::io::Result<Self> {
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_GENERIC)))?;
        Ok(Self { socket, buffer: vec![0; 64 * 1024], number: 0 })
    }

    /// Becomes a member of a group, whose messages the socket receives.
    pub(crate) fn join(&self, group: u32) -> std::io::Result<()> {
        let (fd, len) = (self.socket.as_raw_fd(), size_of::<u32>() as libc::socklen_t);
        // SAFETY: the kernel reads 4 bytes of `group`, and the descriptor is open as long as `self` is borrowed.
        let result =
            unsafe { libc::setsockopt(fd, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, (&raw const group).cast(), len) };
        if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }

    /// Sends a request that changes something, and waits for its acknowledgement.
    pub(crate) fn command(&mut self, mut request: Request) -> std::io::Result<()> {
        request.0[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        self.query(request, |_| ())
    }

    /// Sends a request, and passes the family header and the attributes of each answer to `each`. Ends after one answer, or after the last one of a dump.
    pub(crate) fn query(&mut self, request: Request, mut each: impl FnMut(&[u8])) -> std::io::Result<()> {
        self.number += 1;
        let bytes = request.finish(self.number);
        let is_dump = u16::from_ne_bytes([bytes[6], bytes[7]]) & NLM_F_DUMP == NLM_F_DUMP;
        (&self.socket).write_all(&bytes)?;
        loop {
            let len = (&self.socket).read(&mut self.buffer)?;
            let mut rest = &self.buffer[..len];
            while let Some((kind, number, body, after)) = split(rest) {
                rest = after;
                match kind {
                    _ if number != self.number => {}
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return acknowledged(body),
                    _ => each(body),
                }
                if number == self.number && !is_dump {
                    return Ok(());
                }
            }
        }
    }
}

/// Attributes, as types and values.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & !NLA_F_NESTED;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A 32-bit number of an attribute or a header.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A 64-bit number of an attribute or a header.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The first message's type, number and body, and what follows it.
fn split(bytes: &[u8]) -> Option<(u16, u32, &[u8], &[u8])> {
    let len = u32_at(bytes, 0)? as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..len)?;
    Some((kind, u32_at(bytes, 8)?, body, bytes.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

/// The result of a request in an acknowledgement.
fn acknowledged(body: &[u8]) -> std::io::Result<()> {
    match u32_at(body, 0) {
        Some(0) => Ok(()),
        Some(code) => Err(Error::from_raw_os_error((code as i32).wrapping_neg())),
        None => Err(Error::new(ErrorKind::InvalidData, "a short acknowledgement")),
    }
}

const HEADER: usize = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
/// Request all objects of a type.
pub(crate) const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLA_F_NESTED: u16 = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_round_trip() {
        let Request(bytes) = Request::new(7, 0, &[9; 4]).attribute(1, &[1]).attribute(2, &[2; 8]);
        let read: Vec<_> = attributes(&bytes[HEADER + 4..]).collect();
        assert_eq!(read, [(1, &[1][..]), (2, &[2; 8][..])]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut rest = &bytes[..];
            while let Some((_, _, body, after)) = split(rest) {
                attributes(body).for_each(drop);
                prop_assert!(after.len() < rest.len());
                rest = after;
            }
        }
    }
}
