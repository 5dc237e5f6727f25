//! pcap and pcapng files: packets with their times, one after the other.
//!
//! ```text
//!   pcap    24 B header | (seconds, fraction, kept, length: 16 B | bytes) ...
//!   pcapng  blocks: (type, length | body | length) ...; interfaces are described by blocks of their own
//! ```
//! RFC drafts: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. Either byte order.

use std::io::{self, BufRead};

use super::{Options, Place, Problem};

/// A packet, or a block, may be no longer.
const MAX_BLOCK: u32 = 1 << 24;
/// Interfaces of a section.
const MAX_INTERFACES: usize = 1 << 16;
const HELP: &str = "the capture is damaged or cut short: with --keep-going what comes before is used";

/// Whether a file that begins so is a capture.
pub fn is_capture(begin: &[u8]) -> bool {
    let Some(magic) = begin.first_chunk::<4>() else { return false };
    let little = u32::from_le_bytes(*magic);
    PCAP.contains(&little) || PCAP.contains(&little.swap_bytes()) || little == SECTION
}

/// Microseconds and nanoseconds.
const PCAP: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];
/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

/// A packet of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Nanoseconds since 1970.
    pub at: i64,
    /// Kind of its outermost header: 1 Ethernet, 101 IP, 113 Linux cooked, 276 the same, version 2.
    pub link_type: u16,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// Its length on the wire.
    pub length: u32,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    /// Units of a second.
    units: u64,
    /// Seconds added to each time.
    offset: i64,
}

/// Reads a capture.
pub struct Capture<'a> {
    input: &'a mut dyn BufRead,
    is_big: bool,
    kind: Kind,
    interfaces: Vec<Interface>,
    buffer: Vec<u8>,
    /// Number of the next packet.
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pcap,
    PcapNg,
}

impl<'a> Capture<'a> {
    /// Reads the header.
    pub fn new(input: &'a mut dyn BufRead, options: &Options) -> Result<Self, Problem> {
        let mut capture =
            Self { input, is_big: false, kind: Kind::PcapNg, interfaces: Vec::new(), buffer: Vec::new(), number: 1 };
        let place = options.place("packet", 1);
        let begin = capture.input.fill_buf().map_err(|e| Problem::read(place, &e))?;
        let magic = begin.first_chunk::<4>().map_or(0, |it| u32::from_le_bytes(*it));
        if magic != SECTION {
            capture.kind = Kind::Pcap;
            capture.is_big = !PCAP.contains(&magic);
            capture.take(24, place)?;
            let is_nano = capture.u32(0) == PCAP[1];
            let link_type = (capture.u32(20) & 0xffff) as u16;
            let units = if is_nano { 1_000_000_000 } else { 1_000_000 };
            capture.interfaces.push(Interface { link_type, units, offset: 0 });
        }
        Ok(capture)
    }

    /// The next packet; none at the end of the file.
    pub fn next(&mut self, options: &Options) -> Result<Option<Captured<'_>>, Problem> {
        let place = options.place("packet", self.number);
        match self.kind {
            Kind::Pcap => self.next_of_pcap(place),
            Kind::PcapNg => self.next_of_pcapng(place),
        }
    }

    fn next_of_pcap(&mut self, place: Place<'_>) -> Result<Option<Captured<'_>>, Problem> {
        if self.is_end(place)? {
            return Ok(None);
        }
        self.take(16, place)?;
        let (seconds, fraction, kept, length) = (self.u32(0), self.u32(4), self.u32(8), self.u32(12));
        self.take(kept, place)?;
        self.number += 1;
        let interface = self.interfaces[0];
        let at = i64::from(seconds) * 1_000_000_000 + (u64::from(fraction) * (1_000_000_000 / interface.units)) as i64;
        Ok(Some(Captured { at, link_type: interface.link_type, bytes: &self.buffer, length: length.max(kept) }))
    }

    fn next_of_pcapng(&mut self, place: Place<'_>) -> Result<Option<Captured<'_>>, Problem> {
        loop {
            if self.is_end(place)? {
                return Ok(None);
            }
            self.take(8, place)?;
            let (kind, length) = (self.u32(0), self.u32(4));
            if self.buffer[..4] == SECTION.to_le_bytes() {
                // The byte order comes after the length.
                let raw: [u8; 4] = self.buffer[4..8].try_into().expect("four bytes");
                self.take(4, place)?;
                self.is_big = self.buffer == [0x1a, 0x2b, 0x3c, 0x4d];
                if !self.is_big && self.buffer != [0x4d, 0x3c, 0x2b, 0x1a] {
                    return Err(Problem::at(place, "a section of pcapng without a byte order", HELP));
                }
                let length = if self.is_big { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) };
                self.skip(length.checked_sub(12), place)?;
                self.interfaces.clear();
                continue;
            }
            let Some(body) = length.checked_sub(12).filter(|_| length % 4 == 0) else {
                return Err(Problem::at(place, format!("a block of {length} bytes"), HELP));
            };
            self.take(body, place)?;
            self.check_trailer(length, place)?;
            match kind {
                INTERFACE => self.add_interface(place)?,
                ENHANCED | SIMPLE => break self.packet_of(kind, place).map(Some),
                _ => {}
            }
        }
    }

    fn packet_of(&mut self, kind: u32, place: Place<'_>) -> Result<Captured<'_>, Problem> {
        self.number += 1;
        let wrong = |message: &str| Problem::at(place, message, HELP);
        let (header, id) = if kind == ENHANCED { (20, self.get(0)) } else { (4, Some(0)) };
        if self.buffer.len() < header {
            return Err(wrong("a block that is too short"));
        }
        let interface = *id.and_then(|id| self.interfaces.get(id as usize)).ok_or_else(|| wrong("no such interface"))?;
        if kind == SIMPLE {
            return Err(wrong("a packet without a time (simple packet block)"));
        }
        let units = u64::from(self.u32(4)) << 32 | u64::from(self.u32(8));
        let (kept, length) = (self.u32(12), self.u32(16));
        let bytes =
            self.buffer.get(20..20usize.saturating_add(kept as usize)).ok_or_else(|| wrong("a packet beyond its block"))?;
        let ns = u128::from(units) * 1_000_000_000 / u128::from(interface.units);
        let at = i64::try_from(ns).ok().and_then(|ns| ns.checked_add(interface.offset.checked_mul(1_000_000_000)?));
        let at = at.ok_or_else(|| wrong("a time beyond the year 2262"))?;
        Ok(Captured { at, link_type: interface.link_type, bytes, length: length.max(kept) })
    }

    fn add_interface(&mut self, place: Place<'_>) -> Result<(), Problem> {
        if self.buffer.len() < 8 || self.interfaces.len() >= MAX_INTERFACES {
            return Err(Problem::at(place, "an interface that is too short, or too many of them", HELP));
        }
        let mut interface = Interface { link_type: self.u16(0), units: 1_000_000, offset: 0 };
        let mut at = 8;
        while at + 4 <= self.buffer.len() {
            let (code, length) = (self.u16(at), usize::from(self.u16(at + 2)));
            let Some(value) = self.buffer.get(at + 4..at + 4 + length) else { break };
            match (code, value) {
                (9, &[resolution]) => {
                    let exponent = u32::from(resolution & 0x7f);
                    let units = if resolution & 0x80 == 0 { 10u64.checked_pow(exponent) } else { 1u64.checked_shl(exponent) };
                    let wrong = || Problem::at(place, "an interface with an impossible resolution of times", HELP);
                    interface.units = units.filter(|&it| it > 0).ok_or_else(wrong)?;
                }
                (14, &[a, b, c, d, e, f, g, h]) => {
                    let raw = [a, b, c, d, e, f, g, h];
                    interface.offset = if self.is_big { i64::from_be_bytes(raw) } else { i64::from_le_bytes(raw) };
                }
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn check_trailer(&mut self, length: u32, place: Place<'_>) -> Result<(), Problem> {
        let mut raw = [0; 4];
        self.input.read_exact(&mut raw).map_err(|e| cut(place, &e))?;
        let trailer = if self.is_big { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) };
        if trailer == length { Ok(()) } else { Err(Problem::at(place, "a block whose two lengths differ", HELP)) }
    }

    fn is_end(&mut self, place: Place<'_>) -> Result<bool, Problem> {
        Ok(self.input.fill_buf().map_err(|e| Problem::read(place, &e))?.is_empty())
    }

    /// Reads bytes into the buffer.
    fn take(&mut self, length: u32, place: Place<'_>) -> Result<(), Problem> {
        if length > MAX_BLOCK {
            return Err(Problem::at(place, format!("a packet or block of {length} bytes"), HELP));
        }
        self.buffer.resize(length as usize, 0);
        self.input.read_exact(&mut self.buffer).map_err(|e| cut(place, &e))
    }

    fn skip(&mut self, length: Option<u32>, place: Place<'_>) -> Result<(), Problem> {
        let length = length.ok_or_else(|| Problem::at(place, "a section that is too short", HELP))?;
        self.take(length, place)
    }

    fn get(&self, at: usize) -> Option<u32> {
        let raw = *self.buffer.get(at..)?.first_chunk::<4>()?;
        Some(if self.is_big { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) })
    }

    /// Of bytes that are known to be there.
    fn u32(&self, at: usize) -> u32 {
        self.get(at).unwrap_or(0)
    }

    fn u16(&self, at: usize) -> u16 {
        let raw = self.buffer.get(at..).and_then(|it| it.first_chunk::<2>()).copied().unwrap_or_default();
        if self.is_big { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
    }
}

fn cut(place: Place<'_>, cause: &io::Error) -> Problem {
    if cause.kind() == io::ErrorKind::UnexpectedEof {
        return Problem::at(place, "the file ends within a packet", HELP);
    }
    Problem::read(place, cause)
}
