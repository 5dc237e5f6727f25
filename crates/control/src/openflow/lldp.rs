//! Announcements of ports by LLDP (IEEE 802.1AB): a controller sends one out of each port, and where it comes in there the cable ends.
//!
//! ```text
//!   chassis id     7 (local) | "dpid:" and 16 hexadecimal digits
//!   port id        7 (local) | its number, decimal
//!   time to live   seconds
//!   Weft's         02-57-45 | 1 | tag u64         a keyed hash of datapath and port: nobody else makes it
//! ```
//! No bridge forwards an announcement, so it passes one cable.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use super::SWITCHES_MAC;
use crate::wire::packet::PacketError;
use crate::wire::packet::ethernet::{EtherType, Ethernet};
use crate::wire::packet::lldp::{CHASSIS, END, NEAREST_BRIDGE, ORGANIZATION, PORT, TTL, put, take};

/// A port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchPort {
    /// The switch.
    pub datapath: u64,
    /// The number of its port.
    pub port: u32,
}

/// Makes announcements, and knows its own.
#[derive(Clone, Copy, Debug)]
pub struct Announcer {
    secret: [u64; 2],
}

impl Announcer {
    /// One whose announcements only those who know the secret can make.
    pub const fn new(secret: [u64; 2]) -> Self {
        Self { secret }
    }

    /// The frame that a port sends.
    pub fn frame(&self, from: SwitchPort, ttl_s: u16) -> Vec<u8> {
        let mut out = Vec::new();
        let local = |text: String| [&[LOCAL], text.as_bytes()].concat();
        let tag = [&TAG[..], &self.tag(from).to_be_bytes()].concat();
        Ethernet { dst: NEAREST_BRIDGE, src: SWITCHES_MAC, tag: None, ethertype: EtherType::LLDP, payload: &[] }.emit(&mut out);
        put(&mut out, CHASSIS, &local(chassis_name(from.datapath)));
        put(&mut out, PORT, &local(from.port.to_string()));
        put(&mut out, TTL, &ttl_s.to_be_bytes());
        put(&mut out, ORGANIZATION, &tag);
        put(&mut out, END, &[]);
        out
    }

    /// The port that has sent a frame; `None` if the frame is no announcement of this announcer.
    ///
    /// # Errors
    /// [`PacketError`] if it is not LLDP.
    pub fn sender(&self, frame: &[u8]) -> Result<Option<SwitchPort>, PacketError> {
        let frame = Ethernet::parse(frame)?;
        if frame.ethertype != EtherType::LLDP {
            return Err(PacketError::Kind("LLDP"));
        }
        let (mut datapath, mut port, mut tag) = (None, None, None);
        let mut rest = frame.payload;
        loop {
            match take(&mut rest)? {
                (END, _) => break,
                (CHASSIS, value) => datapath = chassis(value),
                (PORT, value) => port = number(value),
                (ORGANIZATION, value) => tag = value.strip_prefix(&TAG).or(tag),
                _ => {}
            }
        }
        let sender = datapath.zip(port).map(|(datapath, port)| SwitchPort { datapath, port });
        Ok(sender.filter(|&it| tag == Some(&self.tag(it).to_be_bytes()[..])))
    }

    fn tag(&self, of: SwitchPort) -> u64 {
        let mut hash = SipHasher24::new_with_keys(self.secret[0], self.secret[1]);
        hash.write_u64(of.datapath);
        hash.write_u32(of.port);
        hash.finish()
    }
}

/// The subtype of a name that is given locally.
const LOCAL: u8 = 7;
/// An organisation, locally administered, and a subtype.
const TAG: [u8; 4] = [0x02, 0x57, 0x45, 1];

/// The datapath of a chassis id, written as an announcer writes it and in no other way.
fn chassis(value: &[u8]) -> Option<u64> {
    let name = std::str::from_utf8(value.strip_prefix(&[LOCAL])?).ok()?;
    let datapath = u64::from_str_radix(name.strip_prefix("dpid:")?, 16).ok()?;
    (name == chassis_name(datapath)).then_some(datapath)
}

fn chassis_name(datapath: u64) -> String {
    format!("dpid:{datapath:016x}")
}

/// The number of a port id, likewise.
fn number(value: &[u8]) -> Option<u32> {
    let name = std::str::from_utf8(value.strip_prefix(&[LOCAL])?).ok()?;
    name.parse().ok().filter(|port: &u32| port.to_string() == name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    const ANNOUNCER: Announcer = Announcer::new([1, 2]);

    #[test]
    fn a_frame_is_as_the_standard_says() {
        let frame = ANNOUNCER.frame(SwitchPort { datapath: 0xab, port: 12 }, 45);
        assert_eq!(frame[..14], [0x01, 0x80, 0xc2, 0, 0, 0x0e, 0x02, 0x57, 0x45, 0x46, 0x54, 0, 0x88, 0xcc]);
        assert_eq!(&frame[14..40], b"\x02\x16\x07dpid:00000000000000ab\x04\x03");
        assert_eq!(&frame[40..49], b"\x0712\x06\x02\x00\x2d\xfe\x0c");
        assert_eq!(frame[frame.len() - 2..], [0, 0]);
    }

    #[test]
    fn what_others_announce_is_not_ours() {
        let port = SwitchPort { datapath: 1, port: 2 };
        assert_eq!(ANNOUNCER.sender(&Announcer::new([1, 3]).frame(port, 45)), Ok(None));
        // A port that takes another's tag.
        let (mine, other) = (ANNOUNCER.frame(port, 45), ANNOUNCER.frame(SwitchPort { port: 3, ..port }, 45));
        let tag = mine.len() - 10..;
        let forged = [&mine[..tag.start], &other[tag]].concat();
        assert_eq!(ANNOUNCER.sender(&forged), Ok(None));
        assert!(ANNOUNCER.sender(&[0; 60]).is_err());
    }

    proptest! {
        #[test]
        fn an_announcement_names_its_port(datapath: u64, port: u32, ttl: u16, padding in 0usize..40) {
            let from = SwitchPort { datapath, port };
            let mut frame = ANNOUNCER.frame(from, ttl);
            frame.resize(frame.len() + padding, 0);
            prop_assert_eq!(ANNOUNCER.sender(&frame), Ok(Some(from)));
        }

        /// Whatever of the names or the tag is changed: it is no longer ours.
        #[test]
        fn changed_bytes_are_not_ours(from: (u64, u32), at: Index, change in 1u8.., cut: Index) {
            let mut frame = ANNOUNCER.frame(SwitchPort { datapath: from.0, port: from.1 }, 45);
            prop_assert!(ANNOUNCER.sender(&frame[..cut.index(frame.len())]).is_err());
            let port_ends = 40 + usize::from(frame[39]);
            let tag = frame.len() - 14;
            let signed: Vec<usize> = (16..38).chain(40..port_ends).chain(tag..frame.len() - 2).collect();
            frame[*at.get(&signed)] ^= change;
            prop_assert!(matches!(ANNOUNCER.sender(&frame), Ok(None) | Err(_)));
        }
    }

    /// Rust reads `+1` and `0A` as numbers; here they are changed names.
    #[test]
    fn a_number_has_one_spelling() {
        let chassis = |name: &str| chassis(&[&[LOCAL], name.as_bytes()].concat());
        assert_eq!(chassis("dpid:000000000000000a"), Some(10));
        for name in ["dpid:+00000000000000a", "dpid:000000000000000A", "dpid:a", "dpid:", "0000000000000000000a"] {
            assert_eq!(chassis(name), None, "{name}");
        }
        let number = |name: &str| number(&[&[LOCAL], name.as_bytes()].concat());
        assert_eq!(number("12"), Some(12));
        for name in ["+12", "012", "", "4294967296"] {
            assert_eq!(number(name), None, "{name}");
        }
    }
}
