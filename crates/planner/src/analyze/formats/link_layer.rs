//! Headers below IP, by the link types of captures (tcpdump.org/linktypes.html).

/// Where the IP header of a packet begins.
pub fn network_header(link_type: u16, bytes: &[u8]) -> Option<usize> {
    let ethertype = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk::<2>()?));
    let (mut at, mut kind) = match link_type {
        1 => (14, ethertype(12)?),
        113 => (16, ethertype(14)?),
        276 => (20, ethertype(0)?),
        12 | 14 | 101 | 228 | 229 => return Some(0),
        _ => return None,
    };
    // VLAN tags, two at most.
    for _ in 0..2 {
        if matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
            (kind, at) = (ethertype(at + 2)?, at + 4);
        }
    }
    (matches!(kind, 0x0800 | 0x86dd) && at <= bytes.len()).then_some(at)
}
