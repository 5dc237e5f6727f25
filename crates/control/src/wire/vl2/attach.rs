//! A host registers its application addresses at its ToR switch, and the switch answers.
//!
//! ```text
//!    0        2     3      4            8              16       17        33     39     40         44          60
//!   +--------+-----+------+------------+--------------+--------+---------+------+------+----------+-----------+
//!   |  "WA"  | ver | kind | principal  |   sequence   | family | address |  MAC | code | service  |    tag    |
//!   +--------+-----+------+------------+--------------+--------+---------+------+------+----------+-----------+
//!
//!   kind    1 attach, 2 detach: host to switch, UDP port 5304; 0x81, 0x82: the answers
//!   family  4 or 6; of an IPv4 address the first four bytes are used, the others are 0
//!   code    0 in a request; in an answer what became of it
//!   service 0: whichever the directory has
//! ```
//! The tag is a BLAKE2b of the bytes before it, keyed with the host's *attach key*: made from its principal's key, so that a switch that has it can speak
//! to this host and not in its name to the directory. The sequence is the nanoseconds since 1970 at the host, and greater in each new message; a
//! repetition has the same. An answer repeats all of the request but the code.
//!
//! In an answer of code 6 (the sequence is too old) the MAC is the greatest sequence that the switch has accepted, in units of 65,536 ns, rounded up: a host
//! whose clock was set back continues from there ([`Attach::too_old`], [`Attach::newest`]). An older switch repeats the request's MAC there.
//!
//! In every version the first 16 bytes and the tag at the end are as above. A switch answers a request of a version that it does not speak, if its tag is right, by
//! [`Unsupported`] (its own version is in the header); an answer has the version of its request.
//! ```text
//!   +--------+-----+------+------------+--------------+-----------+
//!   |  "WA"  | ver | 0xff | principal  |   sequence   |    tag    |
//!   +--------+-----+------+------------+--------------+-----------+
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_fabric::MacAddr;

use crate::directory::auth::PrincipalKey;
use crate::directory::key::{PrincipalId, ServiceId};
use crate::wire::versions::Versions;

/// The UDP port of switches.
pub const PORT: u16 = 5304;
/// Bytes of every message.
pub const LENGTH: usize = COVERED + TAG;

const MAGIC: [u8; 2] = *b"WA";
const COVERED: usize = 44;
const TAG: usize = 16;
const ANSWER: u8 = 0x80;
const UNSUPPORTED: u8 = 0xff;
const START: usize = 16;

/// What a host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The address is here.
    Attach,
    /// It is here no more.
    Detach,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// Done, and durable in the directory.
    Done,
    /// The directory has no such address: provision it.
    Unknown,
    /// It is another host's.
    NotOwner,
    /// It is of another service than the message says.
    OtherService,
    /// The switch may not bring it to itself: its principal needs its locators in the directory's policy.
    Forbidden,
    /// The switch has no room for more of this host.
    Full,
    /// The sequence is too old: the switch has accepted a later one, or began much later.
    Old,
}

/// A request or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// Of the format.
    pub version: u8,
    /// What is asked for.
    pub kind: Kind,
    /// The answer; `None` in a request.
    pub answer: Option<Code>,
    /// The host.
    pub principal: PrincipalId,
    /// Nanoseconds since 1970; grows.
    pub sequence: u64,
    /// Which address.
    pub address: IpAddr,
    /// Who has it below the switch's port.
    pub mac: MacAddr,
    /// Its service; 0: whichever the directory has.
    pub service: ServiceId,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AttachError {
    /// Not of the one length.
    #[error("{0} bytes instead of {LENGTH}")]
    Length(usize),
    /// It does not begin as it should.
    #[error("not an attach message")]
    Magic,
    /// Another version.
    #[error("version {0}")]
    Version(u8),
    /// A field has a value that it cannot have.
    #[error("bad {0}")]
    Field(&'static str),
}

/// A message taken apart, its tag not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What it says, if the tag is right.
    pub message: Attach,
    bytes: &'a [u8; LENGTH],
}

/// The key with which a host and its switch prove to each other who speaks.
#[derive(Clone, PartialEq, Eq)]
pub struct AttachKey(PrincipalKey);

impl AttachKey {
    /// From the host's own key.
    pub fn of(key: &PrincipalKey) -> Self {
        Self(key.derive(b"weft attach"))
    }

    /// Reads 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`KeyTextError`](crate::directory::auth::KeyTextError).
    pub fn parse(text: &str) -> Result<Self, crate::directory::auth::KeyTextError> {
        PrincipalKey::parse(text).map(Self)
    }

    /// The 64 digits that [`AttachKey::parse`] reads.
    pub fn to_hex(&self) -> String {
        self.0.to_hex()
    }

    fn tag(&self, covered: &[u8]) -> [u8; TAG] {
        self.0.tag(covered)
    }
}

impl fmt::Debug for AttachKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttachKey")
    }
}

impl<'a> Frame<'a> {
    /// Takes a datagram apart.
    ///
    /// # Errors
    /// [`AttachError`] if it is no message of a version of this program.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, AttachError> {
        Self::parse_as(Versions::OURS, bytes)
    }

    /// The same for a program that speaks these versions.
    ///
    /// # Errors
    /// [`AttachError`] if it is no message of them.
    pub fn parse_as(versions: Versions, bytes: &'a [u8]) -> Result<Self, AttachError> {
        if let Some(&[a, b, version, ..]) = bytes.first_chunk::<START>()
            && [a, b] == MAGIC
            && !versions.has(version)
        {
            return Err(AttachError::Version(version));
        }
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| AttachError::Length(bytes.len()))?;
        if bytes[..2] != MAGIC {
            return Err(AttachError::Magic);
        }
        let kind = match bytes[3] & !ANSWER {
            1 => Kind::Attach,
            2 => Kind::Detach,
            _ => return Err(AttachError::Field("kind")),
        };
        let answer = match (bytes[3] & ANSWER, bytes[39]) {
            (0, 0) => None,
            (0, _) => return Err(AttachError::Field("code of a request")),
            (_, code) => Some(Code::of(code).ok_or(AttachError::Field("code"))?),
        };
        let address = read_address(bytes[16], field(bytes, 17)).ok_or(AttachError::Field("address"))?;
        let message = Attach {
            version: bytes[2],
            kind,
            answer,
            principal: PrincipalId(u32::from_be_bytes(field(bytes, 4))),
            sequence: u64::from_be_bytes(field(bytes, 8)),
            address,
            mac: MacAddr(field(bytes, 33)),
            service: ServiceId(u32::from_be_bytes(field(bytes, 40))),
        };
        if message.principal == PrincipalId(0) {
            return Err(AttachError::Field("principal"));
        }
        Ok(Self { message, bytes })
    }

    /// Whether its sender has the key; takes the same time however much of the tag is right.
    pub fn is_of(&self, key: &AttachKey) -> bool {
        self.bytes.split_last_chunk().is_some_and(|(covered, tag)| same(&key.tag(covered), tag))
    }
}

impl Attach {
    /// The datagram.
    pub fn emit(&self, key: &AttachKey) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = self.version;
        bytes[3] = match self.kind {
            Kind::Attach => 1,
            Kind::Detach => 2,
        };
        bytes[4..8].copy_from_slice(&self.principal.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        match self.address {
            IpAddr::V4(ip) => {
                bytes[16] = 4;
                bytes[17..21].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                bytes[16] = 6;
                bytes[17..33].copy_from_slice(&ip.octets());
            }
        }
        bytes[33..39].copy_from_slice(&self.mac.0);
        if let Some(code) = self.answer {
            bytes[3] |= ANSWER;
            bytes[39] = code as u8;
        }
        bytes[40..44].copy_from_slice(&self.service.0.to_be_bytes());
        let (covered, tag) = bytes.split_at_mut(COVERED);
        tag.copy_from_slice(&key.tag(covered));
        bytes
    }

    /// The answer to this request.
    #[must_use]
    pub const fn answered(&self, code: Code) -> Self {
        Self { answer: Some(code), ..*self }
    }

    /// The answer to this request if its sequence is not greater than `newest`, which the switch has accepted.
    #[must_use]
    pub const fn too_old(&self, newest: u64) -> Self {
        let units = newest.div_ceil(SEQUENCE_UNIT).to_be_bytes();
        let mac = MacAddr([units[2], units[3], units[4], units[5], units[6], units[7]]);
        Self { mac, ..self.answered(Code::Old) }
    }

    /// In the answer that `request` is too old: a sequence that is not less than the greatest that the switch has accepted. None if the switch does not say.
    pub fn newest(&self, request: &Self) -> Option<u64> {
        let [a, b, c, d, e, f] = self.mac.0;
        let newest = u64::from_be_bytes([0, 0, a, b, c, d, e, f]).checked_mul(SEQUENCE_UNIT)?;
        let is_old = self.answer == Some(Code::Old) && self.mac != request.mac;
        (is_old && newest >= request.sequence && newest < SEQUENCE_END).then_some(newest)
    }
}

/// A message of a version that its receiver does not speak, its tag not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct Foreign<'a> {
    /// The host.
    pub principal: PrincipalId,
    sequence: u64,
    covered: &'a [u8],
    tag: &'a [u8; TAG],
}

impl<'a> Foreign<'a> {
    /// Takes a request apart; `None` if it is none, or of a version that is spoken.
    pub fn parse(versions: Versions, bytes: &'a [u8]) -> Option<Self> {
        let (covered, tag) = bytes.split_last_chunk::<TAG>()?;
        let start: &[u8; START] = covered.first_chunk()?;
        let is_foreign = start[..2] == MAGIC && !versions.has(start[2]) && start[3] & ANSWER == 0;
        let principal = PrincipalId(u32::from_be_bytes(start[4..8].try_into().expect("four bytes")));
        let sequence = u64::from_be_bytes(start[8..].try_into().expect("eight bytes"));
        is_foreign.then_some(Self { principal, sequence, covered, tag })
    }

    /// Whether its sender has the key.
    pub fn is_of(&self, key: &AttachKey) -> bool {
        same(&key.tag(self.covered), self.tag)
    }

    /// The answer to it from one who speaks these versions.
    pub const fn answer(&self, versions: Versions) -> Unsupported {
        Unsupported { version: versions.newest(), principal: self.principal, sequence: self.sequence }
    }
}

/// The answer to a message of a version that its receiver does not speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The version of the receiver.
    pub version: u8,
    /// The host.
    pub principal: PrincipalId,
    /// Of the message.
    pub sequence: u64,
}

impl Unsupported {
    /// Takes an answer apart; `None` if it is none, or its sender does not have the key.
    pub fn parse(bytes: &[u8], key: &AttachKey) -> Option<Self> {
        let (covered, tag) = bytes.split_last_chunk::<TAG>()?;
        let start: &[u8; START] = covered.try_into().ok()?;
        let is_one = start[..2] == MAGIC && start[3] == UNSUPPORTED && same(&key.tag(covered), tag);
        let principal = PrincipalId(u32::from_be_bytes(start[4..8].try_into().ok()?));
        is_one.then_some(Self { version: start[2], principal, sequence: u64::from_be_bytes(start[8..].try_into().ok()?) })
    }

    /// The datagram.
    pub fn emit(&self, key: &AttachKey) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(START + TAG);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[self.version, UNSUPPORTED]);
        bytes.extend_from_slice(&self.principal.0.to_be_bytes());
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        let tag = key.tag(&bytes);
        bytes.extend_from_slice(&tag);
        bytes
    }
}

/// Takes the same time however much is equal.
fn same(one: &[u8; TAG], two: &[u8; TAG]) -> bool {
    let difference = one.iter().zip(two).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(difference) == 0
}

/// 48 bits of such units are 64 bits of nanoseconds.
const SEQUENCE_UNIT: u64 = 1 << 16;
/// No clock is there before the year 2262.
const SEQUENCE_END: u64 = 1 << 63;

impl Code {
    const ALL: [Self; 7] =
        [Self::Done, Self::Unknown, Self::NotOwner, Self::OtherService, Self::Forbidden, Self::Full, Self::Old];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&code| code as u8 == byte)
    }
}

/// What is wrong, and the next step.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Unknown => "the directory does not know the address: `weft directory put` it first",
            Self::NotOwner => "the address is another host's: `weft directory put` it with this host as its owner",
            Self::OtherService => "the address is of another service",
            Self::Forbidden => "the switch may not change the directory: give its principal `locators` in the policy",
            Self::Full => "the switch has no room for more addresses of this host",
            Self::Old => {
                "the switch has accepted a later message of this host: its clock was set back (or another host has its principal); the agent continues after it"
            }
        })
    }
}

fn field<const N: usize>(bytes: &[u8; LENGTH], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("within the message")
}

/// One form an address: what is not used is 0, and no IPv4 address is written as IPv6.
fn read_address(family: u8, bytes: [u8; 16]) -> Option<IpAddr> {
    match family {
        4 if bytes[4..] == [0; 12] => Some(IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))),
        6 => Some(Ipv6Addr::from(bytes)).filter(|ip| ip.to_ipv4_mapped().is_none()).map(IpAddr::V6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::directory::auth::Secret;
    use crate::wire::versions::VERSION;

    fn key(n: u32) -> AttachKey {
        AttachKey::of(&Secret::new([7; 32]).key_of(PrincipalId(n)))
    }

    fn any_attach() -> impl Strategy<Value = Attach> {
        let address = prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_filter("no mapped", |b| Ipv6Addr::from(*b).to_ipv4_mapped().is_none()).prop_map(IpAddr::from)
        ];
        let codes = prop_oneof![Just(None), proptest::sample::select(&Code::ALL[..]).prop_map(Some)];
        let kinds = prop_oneof![Just(Kind::Attach), Just(Kind::Detach)];
        (kinds, codes, 1u32.., any::<u64>(), address, any::<[u8; 6]>(), any::<u32>()).prop_map(
            |(kind, answer, principal, sequence, address, mac, service)| Attach {
                version: VERSION,
                kind,
                answer,
                principal: PrincipalId(principal),
                sequence,
                address,
                mac: MacAddr(mac),
                service: ServiceId(service),
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(attach in any_attach()) {
            let bytes = attach.emit(&key(1));
            let frame = Frame::parse(&bytes).unwrap();
            prop_assert_eq!(frame.message, attach);
            prop_assert!(frame.is_of(&key(1)) && !frame.is_of(&key(2)));
        }

        #[test]
        fn a_changed_bit_is_noticed(attach in any_attach(), bit in 0..LENGTH * 8) {
            let mut bytes = attach.emit(&key(1));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!Frame::parse(&bytes).is_ok_and(|frame| frame.is_of(&key(1))));
        }

        #[test]
        fn any_bytes_are_a_message_in_one_form_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..80), valid in any_attach(), at in 0..LENGTH) {
            let _ = Frame::parse(&bytes);
            let mut mixed = valid.emit(&key(1));
            for (to, from) in mixed[at..].iter_mut().zip(&bytes) {
                *to = *from;
            }
            if let Ok(frame) = Frame::parse(&mixed) {
                prop_assert_eq!(&frame.message.emit(&key(1))[..COVERED], &mixed[..COVERED]);
            }
        }
    }

    proptest! {
        #[test]
        fn an_answer_to_an_old_request_differs_from_an_older_switchs(attach in any_attach(), newest in any::<u64>()) {
            let request = Attach { answer: None, ..attach };
            let answer = request.too_old(newest);
            let parsed = Frame::parse(&answer.emit(&key(1))).unwrap().message;
            prop_assert_eq!(parsed, answer);
            prop_assert_eq!(request.answered(Code::Old).newest(&request), None, "an older switch");
            if let Some(from) = answer.newest(&request) {
                prop_assert!(from >= newest && from - newest < SEQUENCE_UNIT && from >= request.sequence);
            } else {
                prop_assert!(newest.div_ceil(SEQUENCE_UNIT) * SEQUENCE_UNIT < request.sequence || newest > SEQUENCE_END - SEQUENCE_UNIT || answer.mac == request.mac);
            }
        }
    }

    proptest! {
        #[test]
        fn a_version_that_is_not_spoken_is_answered_so(attach in any_attach(), cut in 0..LENGTH) {
            let bytes = Attach { version: VERSION + 1, answer: None, ..attach }.emit(&key(1));
            prop_assert_eq!(Frame::parse(&bytes).unwrap_err(), AttachError::Version(VERSION + 1));
            prop_assert_eq!(Frame::parse_as(Versions::NEXT, &bytes).unwrap().message.version, VERSION + 1);
            prop_assert!(Foreign::parse(Versions::NEXT, &bytes).is_none());
            let foreign = Foreign::parse(Versions::OURS, &bytes).unwrap();
            prop_assert!(foreign.is_of(&key(1)) && !foreign.is_of(&key(2)));
            let answer = foreign.answer(Versions::OURS);
            prop_assert_eq!((answer.version, answer.principal, answer.sequence), (VERSION, attach.principal, attach.sequence));
            let emitted = answer.emit(&key(1));
            prop_assert!(emitted.len() <= bytes.len());
            prop_assert_eq!(Unsupported::parse(&emitted, &key(1)), Some(answer));
            prop_assert_eq!(Unsupported::parse(&emitted, &key(2)), None);
            prop_assert!(!Foreign::parse(Versions::OURS, &bytes[..cut]).is_some_and(|it| it.is_of(&key(1))));
            prop_assert!(Foreign::parse(Versions::NEXT, &emitted).is_none() && Foreign::parse(Versions::OURS, &emitted).is_none(), "no answer to an answer");
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_drawing() {
        let attach = Attach {
            version: VERSION,
            kind: Kind::Attach,
            answer: None,
            principal: PrincipalId(17),
            sequence: 0x0102_0304_0506_0708,
            address: "20.0.0.5".parse().unwrap(),
            mac: MacAddr([2, 0, 0, 0, 0, 5]),
            service: ServiceId(3),
        };
        let bytes = attach.emit(&key(17));
        let hex: String = bytes[..COVERED].iter().map(|b| format!("{b:02x}")).collect();
        let want = "5741010100000011010203040506070804140000050000000000000000000000000200000000050000000003";
        assert_eq!(hex, want);
        assert_eq!(Frame::parse(&bytes[..59]).unwrap_err(), AttachError::Length(59));
        let answer = attach.answered(Code::NotOwner);
        assert_eq!(answer.emit(&key(17))[39], 2);
        assert_eq!(AttachKey::parse(&key(17).to_hex()).unwrap(), key(17));
        assert_ne!(key(17).to_hex(), Secret::new([7; 32]).key_of(PrincipalId(17)).to_hex());
    }
}
