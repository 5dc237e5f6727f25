//! The hash of a flow and the outer source that comes of it, as the programs compute them (`hash_flow`, `entropy_bits`).

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::{Flow, layout};
use crate::dataplane::bytes::{Plain as _, array};

/// MurmurHash3 (32 bits) of a five-tuple, with a salt as its seed.
pub(super) fn hash_flow(flow: &Flow, salt: u32) -> u32 {
    let flow = layout::flow(flow);
    let mut hash = salt;
    for word in flow.bytes().chunks_exact(4) {
        let word = u32::from_ne_bytes(array(word, 0));
        hash ^= word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= size_of_val(&flow) as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// The bits below the prefix; neither all zeros nor all ones.
pub(super) fn entropy_bits(prefix: Ipv4Net, hash: u32) -> u32 {
    let wild = prefix.hostmask().to_bits();
    match hash & wild {
        0 => 1,
        bits if bits == wild => wild - 1,
        bits => bits,
    }
}

/// The outer source of a hash.
pub(super) fn outer_source(prefix: Ipv4Net, hash: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(prefix.network()) | entropy_bits(prefix, hash))
}

/// Which of a group's anycast addresses a hash takes.
pub(super) fn anycast(hash: u32, count: usize) -> usize {
    ((u64::from(hash.wrapping_mul(0x9e37_79b1)) * count as u64) >> 32) as usize
}
