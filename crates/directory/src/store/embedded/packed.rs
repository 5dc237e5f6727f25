//! The bytes of tenants' entries in redb: a million VIFs are three million entries, so those of VIFs and addresses are binary.
//!
//! ```text
//!   key    m/ID/SPACE/MAC       1, id and space as variable-length integers, 6 bytes
//!          a/ID/SPACE/ADDRESS   2 (IPv4) or 3 (IPv6), id, space, 4 or 16 bytes
//!          any other name       its text, which begins with a letter
//!   value  generation           a variable-length integer
//!          1, a VIF's body      space, MAC address, then 4 or 6 and the bytes of each address
//!          0, any other body    its text
//! ```
//! Only what reads back as the same text is binary. All else stays text, so every name and every body has a place.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_fabric::MacAddr;

const MAC_KEY: u8 = 1;
const IP4_KEY: u8 = 2;
const IP6_KEY: u8 = 3;

const TEXT: u8 = 0;
const VIF: u8 = 1;

/// Whether names that begin so may have keys that are not their text: then a range of keys is not a range of names.
pub fn has_binary_keys(prefix: &str) -> bool {
    ["m/", "a/"].iter().any(|kind| kind.starts_with(prefix) || prefix.starts_with(kind))
}

/// The key of a name.
pub fn key(name: &str) -> Vec<u8> {
    binary_key(name).filter(|key| name_of(key).as_deref() == Some(name)).unwrap_or_else(|| name.as_bytes().to_vec())
}

/// The name of a key; `None`: it is none.
pub fn name_of(key: &[u8]) -> Option<String> {
    let (&kind, mut rest) = key.split_first()?;
    if kind > IP6_KEY {
        return std::str::from_utf8(key).ok().map(str::to_owned);
    }
    let (id, space) = (number(&mut rest)?, number(&mut rest)?);
    match kind {
        MAC_KEY => Some(format!("m/{id}/{space}/{}", MacAddr(rest.try_into().ok()?))),
        IP4_KEY => Some(format!("a/{id}/{space}/{}", Ipv4Addr::from(<[u8; 4]>::try_from(rest).ok()?))),
        IP6_KEY => Some(format!("a/{id}/{space}/{}", Ipv6Addr::from(<[u8; 16]>::try_from(rest).ok()?))),
        _ => None,
    }
}

fn binary_key(name: &str) -> Option<Vec<u8>> {
    let mut parts = name.splitn(4, '/');
    let kind = parts.next().filter(|kind| matches!(*kind, "m" | "a"))?;
    let (id, space) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let address = parts.next()?;
    let mut key = vec![MAC_KEY];
    emit_number(id, &mut key);
    emit_number(space, &mut key);
    if kind == "m" {
        key.extend_from_slice(&address.parse::<MacAddr>().ok()?.0);
        return Some(key);
    }
    match address.parse().ok()? {
        IpAddr::V4(ip) => {
            key[0] = IP4_KEY;
            key.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            key[0] = IP6_KEY;
            key.extend_from_slice(&ip.octets());
        }
    }
    Some(key)
}

/// The value of an entry.
pub fn value(generation: u64, body: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len().min(64) + 12);
    emit_number(generation, &mut bytes);
    let start = bytes.len();
    if emit_vif(body, &mut bytes).is_some() && vif(&bytes[start + 1..]).as_deref() == Some(body) {
        return bytes;
    }
    bytes.truncate(start);
    bytes.push(TEXT);
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

/// The generation and the body of a value; `None`: it is none.
pub fn split(mut bytes: &[u8]) -> Option<(u64, String)> {
    let generation = number(&mut bytes)?;
    let body = match bytes.split_first()? {
        (&TEXT, text) => std::str::from_utf8(text).ok()?.to_owned(),
        (&VIF, rest) => vif(rest)?,
        _ => return None,
    };
    Some((generation, body))
}

/// The generation of a value alone.
pub fn generation(mut bytes: &[u8]) -> Option<u64> {
    number(&mut bytes)
}

/// A body of the keys `space`, `mac` and `addresses`, in this order; `None`: it is another one.
fn emit_vif(body: &str, out: &mut Vec<u8>) -> Option<()> {
    let mut lines = body.lines();
    let mut take = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(" = ");
    let space = take("space")?.parse().ok()?;
    let mac: MacAddr = take("mac")?.strip_prefix('"')?.strip_suffix('"')?.parse().ok()?;
    let addresses = take("addresses")?.strip_prefix('[')?.strip_suffix(']')?;
    out.push(VIF);
    emit_number(space, out);
    out.extend_from_slice(&mac.0);
    for address in addresses.split(", ").filter(|it| !it.is_empty()) {
        match address.strip_prefix('"')?.strip_suffix('"')?.parse().ok()? {
            IpAddr::V4(ip) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
            }
        }
    }
    Some(())
}

fn vif(mut bytes: &[u8]) -> Option<String> {
    let space = number(&mut bytes)?;
    let (mac, mut rest) = bytes.split_first_chunk::<6>()?;
    let mut body = format!("space = {space}\nmac = \"{}\"\naddresses = [", MacAddr(*mac));
    let mut separator = "";
    while let Some((&family, bytes)) = rest.split_first() {
        let ip: IpAddr = match family {
            4 => {
                let (ip, left) = bytes.split_first_chunk::<4>()?;
                rest = left;
                (*ip).into()
            }
            6 => {
                let (ip, left) = bytes.split_first_chunk::<16>()?;
                rest = left;
                (*ip).into()
            }
            _ => return None,
        };
        write!(body, "{separator}\"{ip}\"").ok()?;
        separator = ", ";
    }
    body.push_str("]\n");
    Some(body)
}

/// Seven bits a byte, the lowest first; all but the last have the highest bit set.
fn emit_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if shift == 63 && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_same(name: &str, generation: u64, body: &str) -> (Vec<u8>, Vec<u8>) {
        let (key, value) = (key(name), value(generation, body));
        assert_eq!(name_of(&key).as_deref(), Some(name));
        assert_eq!(split(&value), Some((generation, body.to_owned())), "{value:?}");
        assert_eq!(super::generation(&value), Some(generation));
        (key, value)
    }

    #[test]
    fn a_vif_of_one_address_takes_few_bytes() {
        let body = "space = 1\nmac = \"02:00:00:00:00:01\"\naddresses = [\"10.0.0.1\"]\n";
        let (_, value) = is_same("v/acme/web1", 70_000, body);
        assert_eq!(value.len(), 3 + 1 + 1 + 6 + 5);
        assert_eq!(is_same("m/17/1/02:00:00:00:00:01", 7, "v/acme/web1").0.len(), 1 + 1 + 1 + 6);
        assert_eq!(is_same("a/17/1/10.0.0.1", 7, "v/acme/web1").0.len(), 1 + 1 + 1 + 4);
        assert_eq!(is_same("a/17/4095/2001:db8::1", 7, "v/acme/web1").0.len(), 1 + 1 + 2 + 16);
    }

    #[test]
    fn what_would_read_back_as_something_else_stays_text() {
        for name in ["m/017/1/02:00:00:00:00:01", "m/1/1/02:00:00:00:00:0A", "a/1/1/2001:DB8::1", "m/1/1", "a/x/1/10.0.0.1"] {
            assert_eq!(is_same(name, u64::MAX, "").0, name.as_bytes());
        }
        let vif = |space: &str, more: &str| format!("space = {space}\nmac = \"02:00:00:00:00:01\"\naddresses = [{more}]\n");
        for body in [vif("\"public\"", ""), vif("01", ""), vif("1", "\"10.0.0.1\",\"10.0.0.2\""), vif("1", "") + "x = 1\n"] {
            assert_eq!(is_same("v/a/b", 0, &body).1[..2], [0, TEXT]);
        }
        assert_eq!(is_same("v/a/b", 0, &vif("1", "\"10.0.0.1\", \"2001:db8::1\"")).1[1], VIF);
    }

    #[test]
    fn a_number_has_no_more_than_64_bits() {
        let largest = [&[0xff; 9][..], &[1, TEXT]].concat();
        assert_eq!(split(&largest), Some((u64::MAX, String::new())));
        for last in [2, 0x7f, 0x81] {
            assert_eq!(split(&[&[0xff; 9][..], &[last, 0, TEXT]].concat()), None, "{last}");
        }
    }

    proptest! {
        #[test]
        fn every_entry_reads_back(
            name in "(m|a|v|r|t)/[0-9]{1,4}/[0-9]{1,3}/[0-9a-f:.]{0,17}",
            generation: u64,
            body in "(space = [0-9]{1,3}\nmac = \"02:00:00:0[0-9]:00:[0-9a-fA-F]{2}\"\naddresses = \\[(\"10.0.0.[0-9]{1,3}\")?\\]\n?|\\PC{0,30})",
        ) {
            is_same(&name, generation, &body);
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let _ = (name_of(&bytes), split(&bytes), generation(&bytes));
        }
    }
}
