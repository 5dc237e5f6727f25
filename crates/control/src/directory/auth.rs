//! Who speaks: keys, tags, cookies and the window against replay. The rules are in `docs/protocol-directory.md`, "The tag", "The cookie".
//!
//! ```text
//!   cluster's secret --BLAKE2b--> principal's key --keyed BLAKE2b over header and body--> tag
//!   server's start   --SipHash over principal, address, port--> cookie
//! ```

use std::fmt;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use blake2b_simd::{Params, State};
use siphasher::sip::SipHasher24;

use super::key::PrincipalId;
use crate::wire::directory::{MAGIC, TAG, VERSION};

/// The secret of a cluster: its owner has the key of every principal. While a new one takes the place of an old one, both, each in a slot of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    slots: [Option<[u8; 32]>; 2],
    now: Slot,
}

/// Of which of two secrets a principal's key was made. A server's cookies say so in their lowest bit, so that it knows wherever it has the cookie: a
/// secret stays in its slot as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Cookies are even.
    Even,
    /// Cookies are odd.
    Odd,
}

impl Slot {
    /// What a cookie says.
    pub const fn of(cookie: u64) -> Self {
        if cookie & 1 == 0 { Self::Even } else { Self::Odd }
    }

    /// A cookie that says so; never 0.
    pub const fn mark(self, cookie: u64) -> u64 {
        match self {
            Self::Even if cookie < 2 => 2,
            Self::Even => cookie & !1,
            Self::Odd => cookie | 1,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Even => Self::Odd,
            Self::Odd => Self::Even,
        }
    }
}

/// The key of one principal.
#[derive(Clone, PartialEq, Eq)]
pub struct PrincipalKey([u8; 32]);

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is 64 hexadecimal digits; `weft directory key` makes one")]
pub struct KeyTextError;

impl Secret {
    /// A secret of 32 random bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self { slots: [Some(bytes), None], now: Slot::Even }
    }

    /// The same, and for the time being keys of an old one are good as well.
    pub fn and_old(mut self, old: &Self) -> Self {
        self.slots[self.now.other() as usize] = Some(old.present());
        self
    }

    /// Another secret in place of this one: what both have stays in its slot.
    pub fn replaced_by(&self, next: &Self) -> Self {
        let slot_of = |bytes| [self.now, self.now.other()].into_iter().find(|&slot| self.slots[slot as usize] == Some(bytes));
        let (present, old) = (next.present(), next.slots[next.now.other() as usize]);
        let now = slot_of(present).or_else(|| slot_of(old?).map(Slot::other)).unwrap_or_else(|| self.now.other());
        let mut slots = [Some(present), old];
        if now == Slot::Odd {
            slots.reverse();
        }
        Self { slots, now }
    }

    /// Whether a cookie that was given out under an earlier secret means another key now, or none.
    pub fn voids(&self, earlier: &Self, cookie: u64) -> bool {
        let slot = Slot::of(cookie) as usize;
        self.slots[slot] != earlier.slots[slot]
    }

    /// The slot of keys that are made now.
    pub const fn slot(&self) -> Slot {
        self.now
    }

    /// Whether keys of an old one are good as well.
    pub fn has_old(&self) -> bool {
        self.slots.iter().all(Option::is_some)
    }

    fn present(&self) -> [u8; 32] {
        self.slots[self.now as usize].expect("the present secret is there")
    }

    /// Reads 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`KeyTextError`].
    pub fn parse(text: &str) -> Result<Self, KeyTextError> {
        parse_hex(text).map(Self::new)
    }

    /// The key of a principal.
    pub fn key_of(&self, principal: PrincipalId) -> PrincipalKey {
        self.key_of_slot(principal, self.now)
    }

    /// The key of a principal to whom this server gave the cookie.
    pub fn key_by_cookie(&self, principal: PrincipalId, cookie: u64) -> PrincipalKey {
        self.key_of_slot(principal, Slot::of(cookie))
    }

    /// Whose tag it is: that of the principal's key, or of its old one.
    pub fn maker_of(&self, principal: PrincipalId, covered: &[u8], tag: &[u8; TAG]) -> Option<(Tagger, Slot)> {
        let slots = [self.now, self.now.other()];
        let taken = slots.into_iter().filter(|&slot| self.slots[slot as usize].is_some());
        taken.map(|slot| (self.key_of_slot(principal, slot).tagger(), slot)).find(|(tagger, _)| tagger.verify(covered, tag))
    }

    /// If there is none in the slot, that of the present one.
    fn key_of_slot(&self, principal: PrincipalId, slot: Slot) -> PrincipalKey {
        let secret = self.slots[slot as usize].unwrap_or_else(|| self.present());
        let mut state = Params::new().hash_length(32).key(&secret).to_state();
        state.update(b"weft principal").update(&principal.0.to_be_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(state.finalize().as_bytes());
        PrincipalKey(key)
    }

    /// The 64 digits that [`Secret::parse`] reads.
    pub fn to_hex(&self) -> String {
        hex(&self.present())
    }
}

impl PrincipalKey {
    /// Reads 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`KeyTextError`].
    pub fn parse(text: &str) -> Result<Self, KeyTextError> {
        parse_hex(text).map(Self)
    }

    /// The 64 digits that [`PrincipalKey::parse`] reads.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// Ready for use: half of the work of a short tag is done here, once.
    pub fn tagger(&self) -> Tagger {
        let mut begun = self.state();
        begun.update(PREFIX);
        Tagger { begun, key: self.clone() }
    }

    /// A key made from this one for another purpose; this one cannot be derived from it.
    #[must_use]
    pub fn derive(&self, purpose: &[u8]) -> Self {
        let mut key = [0; 32];
        key.copy_from_slice(Params::new().hash_length(32).key(&self.0).to_state().update(purpose).finalize().as_bytes());
        Self(key)
    }

    /// The tag of bytes that are no message of the directory's.
    pub fn tag(&self, covered: &[u8]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        tag.copy_from_slice(self.state().update(covered).finalize().as_bytes());
        tag
    }

    fn state(&self) -> State {
        Params::new().hash_length(TAG).key(&self.0).to_state()
    }
}

/// Makes and checks the tags of one principal's messages.
#[derive(Clone, Debug)]
pub struct Tagger {
    /// After the key and what every message begins with: half the work of a short message.
    begun: State,
    key: PrincipalKey,
}

impl Tagger {
    /// The tag of a message's header and body.
    #[inline]
    pub fn tag(&self, covered: &[u8]) -> [u8; TAG] {
        let hash = match covered.strip_prefix(PREFIX) {
            Some(rest) => self.begun.clone().update(rest).finalize(),
            None => self.key.state().update(covered).finalize(),
        };
        let mut tag = [0; TAG];
        tag.copy_from_slice(hash.as_bytes());
        tag
    }

    /// Whether it is the tag of these bytes; takes the same time however much of it is right.
    #[inline]
    pub fn verify(&self, covered: &[u8], tag: &[u8; TAG]) -> bool {
        let difference = u128::from_ne_bytes(self.tag(covered)) ^ u128::from_ne_bytes(*tag);
        std::hint::black_box(difference) == 0
    }

    /// Appends the tag of the message that begins at `start` of `out`.
    #[inline]
    pub fn seal(&self, out: &mut Vec<u8>, start: usize) {
        let tag = self.tag(&out[start..]);
        out.extend_from_slice(&tag);
    }
}

/// Gives a server's cookies: one for each principal at each address, other ones after each start.
#[derive(Clone)]
pub struct Cookies([u8; 16]);

impl Cookies {
    /// From 16 random bytes, drawn when the server starts.
    pub const fn new(seed: [u8; 16]) -> Self {
        Self(seed)
    }

    /// The cookie of a principal at an address, in an era of the server's memory of this client; never 0.
    #[inline]
    pub fn cookie(&self, era: u64, principal: PrincipalId, from: SocketAddr) -> u64 {
        let mut bytes = [0; 30];
        bytes[..8].copy_from_slice(&era.to_be_bytes());
        bytes[8..12].copy_from_slice(&principal.0.to_be_bytes());
        bytes[12..14].copy_from_slice(&from.port().to_be_bytes());
        let length = match from.ip() {
            IpAddr::V4(ip) => {
                bytes[14..18].copy_from_slice(&ip.octets());
                18
            }
            IpAddr::V6(ip) => {
                bytes[14..].copy_from_slice(&ip.octets());
                30
            }
        };
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&bytes[..length]);
        hasher.finish().max(1)
    }
}

/// Which request numbers were seen under one cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReplayWindow {
    /// The highest number accepted.
    highest: u64,
    /// Bit i: whether `highest - i` was accepted.
    seen: u64,
}

impl ReplayWindow {
    /// Whether this number comes for the first time; if so, it is seen from now on. 0 never is.
    #[inline]
    pub const fn accept(&mut self, request: u64) -> bool {
        if request > self.highest {
            let ahead = request - self.highest;
            self.seen = if ahead < 64 { self.seen << ahead } else { 0 } | 1;
            self.highest = request;
            return true;
        }
        let behind = self.highest - request;
        if request == 0 || behind >= 64 || self.seen >> behind & 1 == 1 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

/// What every message of this version begins with.
const PREFIX: &[u8] = &[MAGIC[0], MAGIC[1], VERSION];

fn parse_hex(text: &str) -> Result<[u8; 32], KeyTextError> {
    let text = text.trim().as_bytes();
    let mut bytes = [0; 32];
    if text.len() != 64 {
        return Err(KeyTextError);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(KeyTextError);
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// Secrets never reach a log.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Debug for PrincipalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrincipalKey(..)")
    }
}

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookies(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_are_those_of_the_specification() {
        // python3 -c 'import hashlib; S=bytes(range(32));
        //   K=hashlib.blake2b(b"weft principal"+(7).to_bytes(4,"big"),key=S,digest_size=32).digest(); print(K.hex());
        //   print(hashlib.blake2b(b"hello",key=K,digest_size=16).hexdigest())'
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = at as u8;
        }
        let key = Secret::new(bytes).key_of(PrincipalId(7));
        assert_eq!(key.to_hex(), "4007471deb4c8fd380b775c9dc467995c8d904ac60ce026dd084b14ebd65306c");
        assert_eq!(u128::from_be_bytes(key.tagger().tag(b"hello")), 0xd804_e3b1_4175_c0f3_991c_e918_5864_37b0);
    }

    proptest! {
        #[test]
        fn a_begun_state_makes_the_same_tag(message in prop::collection::vec(any::<u8>(), 0..400), begins in any::<bool>()) {
            let key = Secret::new([1; 32]).key_of(PrincipalId(1));
            let message = if begins { [PREFIX, &message].concat() } else { message };
            let whole = key.state().update(&message).finalize();
            prop_assert_eq!(&key.tagger().tag(&message)[..], whole.as_bytes());
        }
    }

    #[test]
    fn a_wrong_tag_is_refused() {
        let tagger = Secret::new([1; 32]).key_of(PrincipalId(1)).tagger();
        let mut tag = tagger.tag(b"message");
        assert!(tagger.verify(b"message", &tag));
        assert!(!tagger.verify(b"messagf", &tag));
        tag[15] ^= 1;
        assert!(!tagger.verify(b"message", &tag));
    }

    #[test]
    fn cookies_differ_by_principal_address_port_era_and_start() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (first, second) = (Cookies::new([1; 16]), Cookies::new([2; 16]));
        let all = [
            first.cookie(0, PrincipalId(1), at("10.0.0.1:1")),
            first.cookie(0, PrincipalId(2), at("10.0.0.1:1")),
            first.cookie(0, PrincipalId(1), at("10.0.0.2:1")),
            first.cookie(0, PrincipalId(1), at("10.0.0.1:2")),
            second.cookie(0, PrincipalId(1), at("10.0.0.1:1")),
            first.cookie(1, PrincipalId(1), at("10.0.0.1:1")),
            first.cookie(0, PrincipalId(1), at("[::10.0.0.1]:1")),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    proptest! {
        /// Secrets come and go, two at a time: a cookie means the key under which it was given out until it is voided, and is voided when that key is no longer
        /// good.
        #[test]
        fn a_cookie_means_its_key_until_it_is_voided(steps in prop::collection::vec((0u8..4, prop::option::of(0u8..4)), 1..8)) {
            let host = PrincipalId(7);
            let secret_of = |(now, old): (u8, Option<u8>)| {
                let secret = Secret::new([now; 32]);
                old.filter(|old| *old != now).map_or(secret.clone(), |old| secret.and_old(&Secret::new([old; 32])))
            };
            let mut secret = secret_of(steps[0]);
            let mut cookies: Vec<(u64, PrincipalKey)> = Vec::new();
            for &step in &steps {
                let next = secret_of(step);
                let replaced = secret.replaced_by(&next);
                prop_assert!(replaced.key_of(host) == next.key_of(host) && replaced.has_old() == next.has_old());
                cookies.retain(|(cookie, _)| !replaced.voids(&secret, *cookie));
                secret = replaced;
                let good = [Some(step.0), step.1].into_iter().flatten().map(|byte| Secret::new([byte; 32]).key_of(host));
                let good: Vec<PrincipalKey> = good.collect();
                for (cookie, key) in &cookies {
                    prop_assert!(secret.key_by_cookie(host, *cookie) == *key && good.contains(key));
                }
                for key in good {
                    let tag = key.tagger().tag(b"message");
                    let (_, slot) = secret.maker_of(host, b"message", &tag).expect("the key is good");
                    cookies.push((slot.mark(1 << 32), key));
                }
            }
        }

        #[test]
        fn a_number_is_accepted_once(steps in prop::collection::vec(0u64..200, 1..300)) {
            let mut window = ReplayWindow::default();
            let mut seen = BTreeSet::new();
            let mut highest = 0;
            for number in steps {
                let fresh = number > 0 && !seen.contains(&number) && number + 64 > highest;
                prop_assert_eq!(window.accept(number), fresh, "{} after {:?}", number, seen);
                if fresh {
                    seen.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
